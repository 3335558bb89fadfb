// memoryd items put | get | list | search | delete | namespaces.
#ifndef MEMORYD_CLI_ITEMS_H_
#define MEMORYD_CLI_ITEMS_H_

#include <CLI/App.hpp>

#include "cli/command.h"

namespace memoryd::cli {

void AddItems(CLI::App& app, Invocation& invocation);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_ITEMS_H_
