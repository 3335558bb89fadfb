// What a write does: one of the commands.
#ifndef MEMORYD_CORE_WRITES_COMMAND_H_
#define MEMORYD_CORE_WRITES_COMMAND_H_

#include <variant>

#include "absl/status/status.h"
#include "core/writes/command_traits.h"
#include "core/writes/commands/contents.h"
#include "core/writes/commands/facts.h"
#include "core/writes/commands/jobs.h"
#include "core/writes/commands/messages.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/commands/sessions.h"
#include "core/writes/commands/staged.h"
#include "core/writes/commands/sweep.h"
#include "core/writes/found_messages.h"
#include "core/writes/incoming.h"

namespace memoryd {

// Each has only the fields that it needs, and a constexpr CommandTraits `kTraits`.
using WriteCommand =
    std::variant<commands::Put, commands::Set, commands::Reset, commands::CreateSession,
                 commands::UpdateSession, commands::DeleteSession, commands::ForgetSession,
                 commands::UpdateMessage, commands::DeleteMessage, commands::UpdateContent,
                 commands::DeleteContent, commands::UndoBlockChange, commands::EditFact,
                 commands::EndJob, commands::RetryJob, commands::StoreUsage, commands::NoteEmbedder,
                 commands::BeginStaged, commands::AddStaged, commands::PublishStaged,
                 commands::DropStaged, commands::Sweep, commands::TakeOutEntries,
                 commands::ArchiveOldest>;

const CommandTraits& TraitsOf(const WriteCommand& command);

// Whether it is admitted however much waits.
bool IsForced(const WriteCommand& command);

// What the command brings; nothing of one that brings no messages or contents.
const IncomingItems& ItemsOf(const WriteCommand& command);

// How many rows of messages, contents and entries the command has the store write, or takes out.
std::size_t RowsOf(const WriteCommand& command);

// How the command wants its session to remember; empty for one that doesn't say.
const RequestedConfig& ConfigOf(const WriteCommand& command);

// Completes a command by what was found for it; why it can't be.
absl::Status Complete(WriteCommand& command, const FoundMessages& found);

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_COMMAND_H_
