// Commands about a session as a whole.
#ifndef MEMORYD_CORE_WRITES_COMMANDS_SESSIONS_H_
#define MEMORYD_CORE_WRITES_COMMANDS_SESSIONS_H_

#include <string>

#include "core/writes/command_traits.h"
#include "core/writes/incoming.h"

namespace memoryd::commands {

struct CreateSession {
  static constexpr CommandTraits kTraits{.takes_defaults = true};

  RequestedConfig config;
};

// Changes how a session remembers; a template replaces all that it says.
struct UpdateSession {
  static constexpr CommandTraits kTraits{.takes_defaults = true,
                                         .renews = CommandTraits::Renews::kExpiryAndAges};

  RequestedConfig config;
};

struct DeleteSession {
  static constexpr CommandTraits kTraits{.finds = CommandTraits::Finds::kRoles};

  // Nothing is done unless the session is of this subject; empty: whatever that is. With one it is
  // a step of an erasure, of which one write is under way at a time, and is admitted as those are
  // that are forced.
  std::string subject;
};

// A tombstone of this subject lets go of what it still keeps of its session, the replies and what
// is staged under it. Nothing is done where there is none.
struct ForgetSession {
  static constexpr CommandTraits kTraits{.is_forced = true};

  std::string subject;
};

}  // namespace memoryd::commands

#endif  // MEMORYD_CORE_WRITES_COMMANDS_SESSIONS_H_
