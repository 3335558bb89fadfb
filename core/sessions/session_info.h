// What a session is at one instant, and where its messages stand.
#ifndef MEMORYD_CORE_SESSIONS_SESSION_INFO_H_
#define MEMORYD_CORE_SESSIONS_SESSION_INFO_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/storage/store.h"

namespace memoryd {

enum class StatusFilter { kAll, kActive, kArchived };

// Whether the message at `position`, which is stored, is in short-term memory.
bool IsActive(const SessionRow& row, std::int64_t position);

// Whether there is a message at `position`, should it not have been taken out by itself.
bool IsStored(const SessionRow& row, std::int64_t position);

// A session's row and configuration at one instant; revision 0 when there is none.
struct SessionInfo {
  SessionRow row;
  std::shared_ptr<const SessionConfig> config;
  // What models have taken for the session; of GetSession() alone.
  Usage usage = {};
  bool exists() const { return row.revision > 0 && !row.deleted; }
};

// What is stored of the messages that `status` asks for, ascending.
std::vector<PositionRange> StoredRanges(const SessionRow& row, StatusFilter status);

// The range but for one position, which need not be in it.
std::vector<PositionRange> Without(PositionRange range, std::int64_t position);

// Where the contents of row.content_generation stand.
PositionRange StoredContents(const SessionRow& row);

// Where the messages with these ids may stand, ascending: an id that memoryd made tells its place
// whether there is such a message or not. Blocks.
absl::StatusOr<std::vector<std::int64_t>> PositionsOf(Store& store, const SessionKey& key,
                                                      std::uint64_t generation,
                                                      const std::vector<std::string>& ids);

}  // namespace memoryd

#endif  // MEMORYD_CORE_SESSIONS_SESSION_INFO_H_
