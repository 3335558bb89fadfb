#include "cli/diagnostic.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "cli/terminal.h"
#include "cli/terminal_text.h"
#include "core/base/error.h"

namespace memoryd::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string JsonLine(const char* kind, Json said) {
  Json line;
  line[kind] = std::move(said);
  // A word of the command line is quoted, whatever bytes it has.
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string ErrorLine(const absl::Status& status, bool json, bool colour) {
  const std::string message(status.message());
  if (!json) return fmt::format("{} {}\n", Red("memoryd:", colour), EscapeForTerminal(message));
  Json error;
  error["code"] = absl::StatusCodeToString(status.code());
  if (const std::string reason = ErrorReason(status); !reason.empty()) error["reason"] = reason;
  error["message"] = message;
  for (const auto& [name, value] : ErrorDetails(status)) error["details"][name] = value;
  return JsonLine("error", std::move(error));
}

std::string WarningLine(std::string_view message, bool json, bool colour) {
  if (json) {
    Json warning;
    warning["message"] = std::string(message);
    return JsonLine("warning", std::move(warning));
  }
  return fmt::format("{} {}\n", Bold("memoryd: warning:", colour), EscapeForTerminal(message));
}

void PrintError(const absl::Status& status, bool json) {
  fmt::print(stderr, "{}", ErrorLine(status, json, WantsColour(STDERR_FILENO)));
}

void PrintWarning(std::string_view message, bool json) {
  fmt::print(stderr, "{}", WarningLine(message, json, WantsColour(STDERR_FILENO)));
}

}  // namespace memoryd::cli
