// How a session comes to remember as a write and the operator want it to.
#ifndef MEMORYD_CORE_WRITES_DRAFT_REQUESTED_CONFIG_H_
#define MEMORYD_CORE_WRITES_DRAFT_REQUESTED_CONFIG_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/model/session_template.h"
#include "core/writes/write.h"

namespace memoryd {

// INVALID_ARGUMENT that names the block which shows the session that it is of.
absl::Status CheckOtherSessions(const SessionKey& key, std::span<const BlockSettings> blocks);

// What the operator gives the session that the request makes; no template where the request says by
// itself how the session remembers. INVALID_ARGUMENT: there is no template of that name.
absl::StatusOr<SessionDefaults> DefaultsFor(const WriteRequest& request);

// How the session remembers that the request makes. A block of a template that shows this very
// session is left out, since the operator could not know of which sessions the template would be.
SessionSettings SettingsOfNew(const WriteRequest& request, const SessionDefaults& defaults);

// How a session remembers after an UpdateSession that remembered by `old`. A template replaces all
// but whom the session is about, and the retention that the template does not have.
// INVALID_ARGUMENT: there is no template of that name.
absl::StatusOr<SessionSettings> SettingsOfUpdate(const WriteRequest& request,
                                                 const SessionSettings& old);

// INVALID_ARGUMENT that names the message whose role the profile doesn't allow.
absl::Status CheckRoles(const SessionConfig& config, const std::vector<IncomingMessage>& messages);

// Of blocks that the session does not have yet, limits what a limited caller says in `settings`.
// `old` is null for a session that is not there.
void LimitNewBlocks(const WriteRequest& request, const SessionConfig* old,
                    SessionSettings& settings);

// OK when a caller with `limits` may have a session configured as `now` that is configured as
// `old`, null for a new one. What is `from_template` is the operator's word. PERMISSION_DENIED
// `CONFIG_NOT_GRANTED`.
absl::Status CheckGranted(const CallerLimits& limits, const SessionConfig* old,
                          const SessionConfig& now, bool from_template);

// OK when a caller of one subject may have a session configured as `now` that is configured as
// `old`, null for a new one: it is of that subject, and shows no other session that the caller has
// named. PERMISSION_DENIED `SUBJECT_NOT_GRANTED`.
absl::Status CheckSubject(const WriteRequest& request, const SessionConfig* old,
                          const SessionConfig& now, bool from_template);

// How the session remembers that the request makes, in `settings`; returns what that is in full,
// checked.
absl::StatusOr<std::shared_ptr<const SessionConfig>> MakeConfig(const WriteRequest& request,
                                                                SessionSettings& settings);

// OK when what the request asks for beside messages is what a session of this configuration is.
// FAILED_PRECONDITION `CONFIG_MISMATCH`.
absl::Status CheckConfig(const WriteRequest& request, const SessionConfig& config);

// INVALID_ARGUMENT for a new item whose time is over.
absl::Status CheckTimes(const IncomingItems& items, std::int64_t now_us);

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_DRAFT_REQUESTED_CONFIG_H_
