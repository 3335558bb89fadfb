// Commands by which a caller corrects what a block knows.
#ifndef MEMORYD_CORE_WRITES_COMMANDS_FACTS_H_
#define MEMORYD_CORE_WRITES_COMMANDS_FACTS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "core/blocks/fact_changes.h"
#include "core/writes/command_traits.h"
#include "core/writes/found_messages.h"

namespace memoryd::commands {

// Takes back a change of the block's history.
struct UndoBlockChange {
  static constexpr CommandTraits kTraits{};

  std::string block;
  std::int64_t change = 0;  // Its number in the history, from 1.
  std::string writer;       // The caller's credential.
};

// Adds a fact, or corrects or deletes one.
struct EditFact {
  static constexpr CommandTraits kTraits{.finds = CommandTraits::Finds::kEvidence};

  std::string block;
  FactEdit fact;
  // Says in `fact` whether the evidence that was found is untrusted; may be empty. May be called
  // several times, by any thread.
  std::function<absl::Status(const FoundMessages& found, FactEdit& fact)> judge;
  std::string writer;  // The caller's credential.
};

}  // namespace memoryd::commands

#endif  // MEMORYD_CORE_WRITES_COMMANDS_FACTS_H_
