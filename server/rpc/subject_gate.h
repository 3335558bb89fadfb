// Calls of a caller whose credential is of one subject (docs/adr/0064).
#ifndef MEMORYD_SERVER_RPC_SUBJECT_GATE_H_
#define MEMORYD_SERVER_RPC_SUBJECT_GATE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/calls/call_end.h"
#include "core/model/session.h"

namespace memoryd {

class SessionReads;

// An id that a request may name and no session has: no new one may hold characters that do not
// show. What a caller must not see is read as the session of this id, and so as unknown, by
// whatever reads it.
inline constexpr std::string_view kNobodysSession = "\u3164unknown";

// Whose a session was at one instant.
struct SessionOwner {
  bool exists = false;
  std::string subject;           // Empty: none.
  std::uint64_t generation = 0;  // Another one is another session.
  std::int64_t revision = 0;     // Rises with every change, over deletion too.

  bool IsOf(std::string_view asked) const { return exists && subject == asked; }
  bool IsOfOther(std::string_view asked) const { return exists && subject != asked; }
};

// Says whose a session is, as a read that begins now would find it. Any thread.
using OwnerLookup = std::function<void(const SessionKey& key, CallEnd end,
                                       std::function<void(absl::StatusOr<SessionOwner>)> done)>;

// `reads` outlives it.
OwnerLookup OwnerLookupOf(SessionReads* reads);

// Whether a session that was the subject's, or unknown, at `before` was that until `after`.
bool WasOf(std::string_view subject, const SessionOwner& before, const SessionOwner& after);

// ABORTED `SESSION_REPLACED`, for a read during which it was not.
absl::Status SubjectChanged();

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_SUBJECT_GATE_H_
