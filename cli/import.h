// `memoryd import`: makes sessions out of a file that `memoryd export` has written.
#ifndef MEMORYD_CLI_IMPORT_H_
#define MEMORYD_CLI_IMPORT_H_

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace memoryd::cli {

void AddImport(CLI::App& app, Invocation& invocation);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_IMPORT_H_
