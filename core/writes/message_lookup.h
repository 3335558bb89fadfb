// Finds messages by the ids that callers know them by.
#ifndef MEMORYD_CORE_WRITES_MESSAGE_LOOKUP_H_
#define MEMORYD_CORE_WRITES_MESSAGE_LOOKUP_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/model/body_reader.h"
#include "core/sessions/session_errors.h"
#include "core/sessions/session_info.h"
#include "core/storage/store.h"
#include "core/writes/write.h"

namespace memoryd {

// How far a tool's call and its result may lie apart to be known as a pair, in positions.
inline constexpr std::int64_t kToolPairReach = 1000;

// The oldest active messages of the session, but for the pinned; not all, where they are many.
absl::StatusOr<OldestActive> ReadOldest(Store& store, const SessionKey& key, const SessionRow& row,
                                        std::span<const std::string> user_roles);

// The memory for what ReadOldest() reads, and for its commit. RESOURCE_EXHAUSTED `MEMORY_SHORT`.
absl::StatusOr<MemoryBudget::Hold> TakeForOldest(MemoryBudget& budget, std::string_view tenant);

// Finds the message that an UpdateMessage or DeleteMessage names, and for the latter what has to go
// with it: a tool's call and its results go together. Or the content that an UpdateContent or
// DeleteContent names, or the evidence of a fact. Blocks. `info` describes the session. What can't
// be changed is told in the result's status; the call fails when the store does. Of a Set, Reset or
// DeleteSession no message is returned: its status is PERMISSION_DENIED `ROLE_NOT_GRANTED` when it
// would take out a message of a role that the caller may not write, as is that of an UpdateMessage
// or DeleteMessage. `bodies` is read for roles that Role has no name for.
absl::StatusOr<FoundMessages> FindMessages(Store& store, const BodyReader& bodies,
                                           const SessionInfo& info, const WriteRequest& request);

// Whether roles have to be looked at before all messages, or all of a status, are taken out.
bool MustCheckRoles(const WriteRequest& request);

// The message of this id, null for none; also where the session is not there. Blocks.
absl::StatusOr<MessagePtr> FindMessage(Store& store, const SessionKey& key, const SessionInfo& info,
                                       const std::string& id);

// The content of this id. Blocks. NOT_FOUND `SESSION_NOT_FOUND` or `CONTENT_NOT_FOUND`.
absl::StatusOr<ContentPtr> FindContent(Store& store, const SessionKey& key, const SessionInfo& info,
                                       const std::string& id);

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_MESSAGE_LOOKUP_H_
