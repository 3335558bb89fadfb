#include "server/rpc/subject_gate.h"

#include <functional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/calls/call_end.h"
#include "core/model/session.h"
#include "core/reads/session_reads.h"
#include "core/sessions/session_info.h"

namespace memoryd {

OwnerLookup OwnerLookupOf(SessionReads* reads) {
  return [reads](const SessionKey& key, CallEnd end,
                 std::function<void(absl::StatusOr<SessionOwner>)> done) {
    reads->GetSession(key, std::move(end),
                      [done = std::move(done)](const absl::StatusOr<SessionInfo>& info) {
                        if (!info.ok()) {
                          done(info.status());
                          return;
                        }
                        const bool exists = info->exists();
                        done(SessionOwner{exists, exists ? info->config->subject : std::string(),
                                          info->row.generation, info->row.revision});
                      });
  };
}

bool WasOf(std::string_view subject, const SessionOwner& before, const SessionOwner& after) {
  if (before.generation != after.generation) return false;
  return before.revision == after.revision || (before.IsOf(subject) && after.IsOf(subject));
}

absl::Status SubjectChanged() {
  return Error(absl::StatusCode::kAborted, "SESSION_REPLACED",
               "the session was replaced, or given to another subject, while it was read; try "
               "again");
}

}  // namespace memoryd
