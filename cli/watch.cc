#include "cli/watch.h"

#include <fmt/format.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <chrono>
#include <thread>

#include "core/base/status_macros.h"

namespace memoryd::cli {

void AddWatch(CLI::App& command, Watch& watch, const char* until) {
  command.add_flag("--watch", watch.on,
                   fmt::format("Look again, and show what changes, {}.", until));
  command.add_option("--every", watch.every_s, "Seconds between two looks [1].")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.01, 3600.0).description(""));
}

absl::Status Repeat(const Watch& watch, const std::function<absl::StatusOr<bool>()>& look) {
  while (true) {
    MEMORYD_ASSIGN_OR_RETURN(const bool goes_on, look());
    if (!watch.on || !goes_on) return absl::OkStatus();
    std::this_thread::sleep_for(std::chrono::duration<double>(watch.every_s));
  }
}

}  // namespace memoryd::cli
