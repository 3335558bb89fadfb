// Values of settings as they are written. Each Parse function sets `out`, or returns what is wrong.
#ifndef MEMORYD_SERVER_SETTINGS_SETTING_VALUE_H_
#define MEMORYD_SERVER_SETTINGS_SETTING_VALUE_H_

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace memoryd {

template <typename Int>
std::string ParseInt(const std::string& value, Int lowest, Int highest, Int& out) {
  Int parsed = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  if (error != std::errc() || end != value.data() + value.size() || parsed < lowest ||
      parsed > highest) {
    return fmt::format("must be a whole number from {} to {}", lowest, highest);
  }
  out = parsed;
  return {};
}

inline std::string ParseBool(const std::string& value, bool& out) {
  if (value != "true" && value != "false") return "must be true or false";
  out = value == "true";
  return {};
}

inline std::string ParseChoice(const std::string& value,
                               std::initializer_list<std::string_view> choices, std::string& out) {
  for (const std::string_view choice : choices) {
    if (value == choice) {
      out = value;
      return {};
    }
  }
  return fmt::format("must be one of {}", fmt::join(choices, ", "));
}

// `message` without line breaks and other control characters, which the keys, names and addresses
// that it repeats may hold.
inline std::string OnOneLine(std::string message) {
  std::replace_if(
      message.begin(), message.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  return message;
}

// INVALID_ARGUMENT with `message` on one line.
inline absl::Status InvalidSetting(std::string message) {
  return absl::InvalidArgumentError(OnOneLine(std::move(message)));
}

}  // namespace memoryd

#endif  // MEMORYD_SERVER_SETTINGS_SETTING_VALUE_H_
