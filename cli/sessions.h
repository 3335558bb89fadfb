// memoryd sessions list | show | delete.
#ifndef MEMORYD_CLI_SESSIONS_H_
#define MEMORYD_CLI_SESSIONS_H_

#include <CLI/App.hpp>

#include "cli/command.h"

namespace memoryd::cli {

void AddSessions(CLI::App& app, Invocation& invocation);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_SESSIONS_H_
