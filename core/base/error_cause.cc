#include "core/base/error_cause.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/cord.h"

namespace memoryd {
namespace {

// The payload is the code, a NUL and the text.
constexpr char kPayloadUrl[] = "memoryd/cause";
constexpr std::size_t kMaxText = 1000;

std::string InOneLine(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (line.size() >= kMaxText) break;
    const bool blank = c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\0';
    if (!blank) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  if (line.ends_with(' ')) line.pop_back();
  return line;
}

}  // namespace

absl::Status WithCause(absl::Status status, std::string_view code, std::string_view text) {
  std::string payload(code);
  payload += '\0';
  payload += InOneLine(text);
  status.SetPayload(kPayloadUrl, absl::Cord(payload));
  return status;
}

ErrorCause CauseOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return {};
  const std::string bytes(*payload);
  const std::size_t end = bytes.find('\0');
  return {bytes.substr(0, end), bytes.substr(end + 1)};
}

std::string TextForLog(const absl::Status& status) {
  std::string text(status.message());
  const ErrorCause cause = CauseOf(status);
  if (!cause.text.empty()) text += fmt::format(": {}", cause.text);
  if (!cause.code.empty()) text += fmt::format(" ({})", cause.code);
  return text;
}

}  // namespace memoryd
