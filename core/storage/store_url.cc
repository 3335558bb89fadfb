#include "core/storage/store_url.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include "absl/status/status.h"

namespace memoryd {
namespace {

constexpr std::size_t kLongestShownPath = 100;

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string_view SchemeOf(std::string_view url) {
  const std::size_t colon = url.find(':');
  if (colon == std::string_view::npos) return {};
  const std::string_view scheme = url.substr(0, colon);
  const bool is_scheme =
      !scheme.empty() && IsLetter(scheme.front()) && std::ranges::all_of(scheme, [](char c) {
        return IsLetter(c) || IsDigit(c) || c == '+' || c == '-' || c == '.' || c == '_';
      });
  return is_scheme ? scheme : std::string_view();
}

std::string_view WithoutDriver(std::string_view scheme) {
  return scheme.substr(0, scheme.find('+'));
}

absl::Status CheckDriver(std::string_view scheme, std::span<const std::string_view> drivers,
                         std::string_view example) {
  const std::string_view name = WithoutDriver(scheme);
  if (name.size() == scheme.size()) return absl::OkStatus();
  if (std::ranges::find(drivers, scheme.substr(name.size() + 1)) != drivers.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("begins with {}:, which names no driver that is known here: write {}",
                  scheme.substr(0, kLongestShownScheme), example));
}

bool LooksLikePath(std::string_view text) {
  return !text.empty() && text.size() <= kLongestShownPath && std::ranges::all_of(text, [](char c) {
    return IsLetter(c) || IsDigit(c) || c == '/' || c == '.' || c == '_' || c == '-';
  });
}

}  // namespace memoryd
