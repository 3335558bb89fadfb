// memoryd info.
#ifndef MEMORYD_CLI_INFO_H_
#define MEMORYD_CLI_INFO_H_

#include <CLI/App.hpp>

#include "cli/command.h"

namespace memoryd::cli {

void AddInfo(CLI::App& app, Invocation& invocation);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_INFO_H_
