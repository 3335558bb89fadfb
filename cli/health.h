// memoryd health.
#ifndef MEMORYD_CLI_HEALTH_H_
#define MEMORYD_CLI_HEALTH_H_

#include <CLI/App.hpp>

#include "cli/command.h"

namespace memoryd::cli {

void AddHealth(CLI::App& app, Invocation& invocation);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_HEALTH_H_
