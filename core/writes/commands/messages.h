// Commands that change a stored message or take it out.
#ifndef MEMORYD_CORE_WRITES_COMMANDS_MESSAGES_H_
#define MEMORYD_CORE_WRITES_COMMANDS_MESSAGES_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "core/writes/command_traits.h"
#include "core/writes/found_messages.h"
#include "core/writes/incoming.h"

namespace memoryd::commands {

// Fills in the one message or content that takes the place of the stored one. May be called several
// times, by any thread.
using EditItem = std::function<absl::Status(const FoundMessages& found, IncomingItems& items)>;

struct UpdateMessage {
  static constexpr CommandTraits kTraits{.finds = CommandTraits::Finds::kNamed};

  std::string message_id;
  EditItem edit;
  IncomingItems items;  // The message as it will be, made by `edit`.
};

struct DeleteMessage {
  static constexpr CommandTraits kTraits{.finds = CommandTraits::Finds::kNamed};

  std::string message_id;
  // Whether a tool's call goes with its results, and they with it; else neither may go alone.
  bool with_tool_messages = false;
};

}  // namespace memoryd::commands

#endif  // MEMORYD_CORE_WRITES_COMMANDS_MESSAGES_H_
