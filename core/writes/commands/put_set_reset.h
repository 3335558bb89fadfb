// Commands that put messages and contents into a session, or take out all of them.
#ifndef MEMORYD_CORE_WRITES_COMMANDS_PUT_SET_RESET_H_
#define MEMORYD_CORE_WRITES_COMMANDS_PUT_SET_RESET_H_

#include <cstdint>
#include <optional>

#include "core/writes/command_traits.h"
#include "core/writes/incoming.h"

namespace memoryd::commands {

// Appends messages and contents, and makes the session where there is none.
struct Put {
  static constexpr CommandTraits kTraits{.shares_commit = true, .takes_defaults = true};

  IncomingItems items;
  // Of a session that exists: it must be configured so, or have the template of this name.
  RequestedConfig config;
  // Only into a session that is there, of this generation; ABORTED `SESSION_REPLACED`.
  std::optional<std::uint64_t> only_generation;
};

// Puts these in the place of all messages and contents, and makes the session where there is none.
struct Set {
  static constexpr CommandTraits kTraits{.finds = CommandTraits::Finds::kRoles,
                                         .takes_defaults = true};

  IncomingItems items;
};

enum class ResetScope { kProfile, kMessages, kActive, kArchived, kEverything };

// Takes out what is in the scope.
struct Reset {
  static constexpr CommandTraits kTraits{.finds = CommandTraits::Finds::kRoles};

  ResetScope scope = ResetScope::kProfile;
};

}  // namespace memoryd::commands

namespace memoryd {
using commands::ResetScope;
}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_COMMANDS_PUT_SET_RESET_H_
