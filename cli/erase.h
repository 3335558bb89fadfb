// memoryd erase.
#ifndef MEMORYD_CLI_ERASE_H_
#define MEMORYD_CLI_ERASE_H_

#include <CLI/App.hpp>

#include "cli/command.h"

namespace memoryd::cli {

void AddErase(CLI::App& app, Invocation& invocation);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_ERASE_H_
