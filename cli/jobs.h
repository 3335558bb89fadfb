// memoryd jobs list | show | retry | cancel.
#ifndef MEMORYD_CLI_JOBS_H_
#define MEMORYD_CLI_JOBS_H_

#include <CLI/App.hpp>

#include "cli/command.h"

namespace memoryd::cli {

void AddJobs(CLI::App& app, Invocation& invocation);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_JOBS_H_
