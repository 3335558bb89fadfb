// memoryd messages list | show | delete.
#ifndef MEMORYD_CLI_MESSAGES_H_
#define MEMORYD_CLI_MESSAGES_H_

#include <CLI/App.hpp>

#include "cli/command.h"

namespace memoryd::cli {

void AddMessages(CLI::App& app, Invocation& invocation);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_MESSAGES_H_
