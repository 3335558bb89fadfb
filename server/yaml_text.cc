#include "server/yaml_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "core/base/utf8_decode.h"

namespace memoryd {
namespace {

// The bytes in front of the first that are not UTF-8.
std::size_t Utf8Bytes(std::string_view text) {
  const char* const end = text.data() + text.size();
  const char* p = text.data();
  while (p < end) {
    const std::size_t length = DecodeUtf8(p, end).length;
    if (length == 0) break;
    p += length;
  }
  return static_cast<std::size_t>(p - text.data());
}

}  // namespace

bool IsUtf8(std::string_view text) { return Utf8Bytes(text) == text.size(); }

absl::Status CheckYamlText(std::string_view yaml, const std::string& path) {
  const std::size_t good = Utf8Bytes(yaml);
  if (good == yaml.size()) return absl::OkStatus();
  const auto line = 1 + std::ranges::count(yaml.substr(0, good), '\n');
  return absl::InvalidArgumentError(fmt::format("{}:{}: is not UTF-8", path, line));
}

}  // namespace memoryd
