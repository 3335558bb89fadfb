// Commands that look again and again.
#ifndef MEMORYD_CLI_WATCH_H_
#define MEMORYD_CLI_WATCH_H_

#include <CLI/App.hpp>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace memoryd::cli {

// What --watch and --every say.
struct Watch {
  bool on = false;
  double every_s = 1;
};

// Adds both options to a command. `until`: when it ends.
void AddWatch(CLI::App& command, Watch& watch, const char* until);

// Calls `look` once or, with --watch, until it says false or fails.
absl::Status Repeat(const Watch& watch, const std::function<absl::StatusOr<bool>()>& look);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_WATCH_H_
