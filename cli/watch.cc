#include "cli/watch.h"

#include <fmt/format.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <chrono>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/call_error.h"
#include "cli/command.h"
#include "cli/diagnostic.h"
#include "cli/printer.h"
#include "core/base/status_macros.h"

namespace memoryd::cli {

void AddWatch(CLI::App& command, Watch& watch, const char* until) {
  CLI::Option* const on = command.add_flag(
      "--watch", watch.on, fmt::format("Repeat, and show what changes, {}.", until));
  command.add_option("--every", watch.every_s, "Seconds between two repetitions of --watch [1].")
      ->type_name("SECONDS")
      ->needs(on)
      ->check(Between(0.01, 3600));
}

absl::Status Repeat(const Watch& watch, Printer& printer,
                    const std::function<absl::StatusOr<bool>()>& look) {
  bool looked = false;
  std::string told;
  while (true) {
    const absl::StatusOr<bool> goes_on = look();
    if (goes_on.ok()) {
      if (!watch.on || !*goes_on) return absl::OkStatus();
      looked = true;
      told.clear();
    } else if (!looked || ExitCodeOf(goes_on.status()) != kNotAnswered) {
      return goes_on.status();
    } else if (goes_on.status().message() != told) {
      told = std::string(goes_on.status().message());
      PrintWarning(fmt::format("{}; looking again", told), printer.json());
    }
    printer.Wait(
        std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(watch.every_s)));
    MEMORYD_RETURN_IF_ERROR(printer.status());
  }
}

}  // namespace memoryd::cli
