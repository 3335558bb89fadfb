// Commands that change a stored content or take it out.
#ifndef MEMORYD_CORE_WRITES_COMMANDS_CONTENTS_H_
#define MEMORYD_CORE_WRITES_COMMANDS_CONTENTS_H_

#include <string>

#include "core/writes/command_traits.h"
#include "core/writes/commands/messages.h"
#include "core/writes/incoming.h"

namespace memoryd::commands {

struct UpdateContent {
  static constexpr CommandTraits kTraits{.finds = CommandTraits::Finds::kNamed};

  std::string content_id;
  EditItem edit;
  IncomingItems items;  // The content as it will be, made by `edit`.
};

struct DeleteContent {
  static constexpr CommandTraits kTraits{.finds = CommandTraits::Finds::kNamed};

  std::string content_id;
};

}  // namespace memoryd::commands

#endif  // MEMORYD_CORE_WRITES_COMMANDS_CONTENTS_H_
