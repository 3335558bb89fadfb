// memoryd facts list | add | update | delete | undo.
#ifndef MEMORYD_CLI_FACTS_H_
#define MEMORYD_CLI_FACTS_H_

#include <CLI/App.hpp>

#include "cli/command.h"

namespace memoryd::cli {

void AddFacts(CLI::App& app, Invocation& invocation);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_FACTS_H_
