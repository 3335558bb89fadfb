#include "core/storage/tool_ids.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace memoryd {
namespace {

// Lengths and counts, seven bits a byte, low bits first.
void AppendVarint(std::string& bytes, std::size_t number) {
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  bytes += static_cast<char>(number);
}

std::optional<std::size_t> TakeVarint(std::string_view& bytes) {
  std::size_t number = 0;
  for (int shift = 0; shift < 35 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    number |= static_cast<std::size_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return number;
  }
  return std::nullopt;
}

void AppendStrings(std::string& bytes, const std::vector<std::string>& strings) {
  AppendVarint(bytes, strings.size());
  for (const std::string& string : strings) {
    AppendVarint(bytes, string.size());
    bytes += string;
  }
}

bool TakeStrings(std::string_view& bytes, std::vector<std::string>& strings) {
  const std::optional<std::size_t> count = TakeVarint(bytes);
  if (!count || *count > bytes.size()) return false;
  for (std::size_t i = 0; i < *count; ++i) {
    const std::optional<std::size_t> size = TakeVarint(bytes);
    if (!size || *size > bytes.size()) return false;
    strings.emplace_back(bytes.substr(0, *size));
    bytes.remove_prefix(*size);
  }
  return true;
}

}  // namespace

std::string EncodeToolIds(const Message& message) {
  std::string bytes;
  if (message.ids->calls.empty() && message.ids->results.empty()) return bytes;
  AppendStrings(bytes, message.ids->calls);
  AppendStrings(bytes, message.ids->results);
  return bytes;
}

bool DecodeToolIds(std::string_view bytes, Message& message) {
  if (bytes.empty()) return true;
  return TakeStrings(bytes, message.ids.value().calls) &&
         TakeStrings(bytes, message.ids.value().results) && bytes.empty();
}

}  // namespace memoryd
