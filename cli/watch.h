// Commands that look again and again.
#ifndef MEMORYD_CLI_WATCH_H_
#define MEMORYD_CLI_WATCH_H_

#include <CLI/App.hpp>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/printer.h"

namespace memoryd::cli {

// What --watch and --every say.
struct Watch {
  bool on = false;
  double every_s = 1;
};

// Adds both options to a command. `until`: when it ends.
void AddWatch(CLI::App& command, Watch& watch, const char* until);

// Calls `look` once or, with --watch, until it says false or fails, or what it prints can't be
// written: also when nobody reads standard output any more. Once it has worked, a server that is
// not there, or has no time, is told on standard error, and looked for again.
absl::Status Repeat(const Watch& watch, Printer& printer,
                    const std::function<absl::StatusOr<bool>()>& look);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_WATCH_H_
