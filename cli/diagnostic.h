// What goes wrong, on standard error: a line for people or, with --json, an object on a line.
#ifndef MEMORYD_CLI_DIAGNOSTIC_H_
#define MEMORYD_CLI_DIAGNOSTIC_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace memoryd::cli {

// `memoryd: MESSAGE`, escaped and with its name in red where `colour` is. With `json` instead
// {"error":{"code":…,"reason":…,"message":…,"details":{…}}}, without a reason and details where
// there are none (core/base/error.h).
std::string ErrorLine(const absl::Status& status, bool json, bool colour);

// `memoryd: warning: MESSAGE`, with `json` {"warning":{"message":…}}.
std::string WarningLine(std::string_view message, bool json, bool colour);

void PrintError(const absl::Status& status, bool json);
void PrintWarning(std::string_view message, bool json);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_DIAGNOSTIC_H_
