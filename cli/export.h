// memoryd export.
#ifndef MEMORYD_CLI_EXPORT_H_
#define MEMORYD_CLI_EXPORT_H_

#include <CLI/App.hpp>

#include "cli/command.h"

namespace memoryd::cli {

void AddExport(CLI::App& app, Invocation& invocation);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_EXPORT_H_
