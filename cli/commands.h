// All commands of the program.
#ifndef MEMORYD_CLI_COMMANDS_H_
#define MEMORYD_CLI_COMMANDS_H_

#include <CLI/App.hpp>

#include "cli/command.h"
#include "cli/program.h"

namespace memoryd::cli {

// Declares them below `app`, which becomes the program. `invocation` and `program` outlive it.
void AddCommands(CLI::App& app, Invocation& invocation, const Program& program);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_COMMANDS_H_
