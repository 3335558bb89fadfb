#include "core/storage/tool_ids.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/message.h"

namespace memoryd {
namespace {

// Seven bits a byte, low bits first.
void AppendVarint(std::string& bytes, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  bytes += static_cast<char>(number);
}

std::optional<std::uint64_t> TakeVarint(std::string_view& bytes) {
  std::uint64_t number = 0;
  for (int shift = 0; shift < 63 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    number |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
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
  const std::optional<std::uint64_t> count = TakeVarint(bytes);
  if (!count || *count > bytes.size()) return false;
  for (std::uint64_t i = 0; i < *count; ++i) {
    const std::optional<std::uint64_t> size = TakeVarint(bytes);
    if (!size || *size > bytes.size()) return false;
    strings.emplace_back(bytes.substr(0, *size));
    bytes.remove_prefix(*size);
  }
  return true;
}

}  // namespace

std::string EncodeToolIds(const Message& message) {
  std::string bytes;
  const MessageIds& ids = *message.ids;
  if (ids.calls.empty() && ids.results.empty() && ids.expire_us <= 0) return bytes;
  AppendStrings(bytes, ids.calls);
  AppendStrings(bytes, ids.results);
  if (ids.expire_us > 0) AppendVarint(bytes, static_cast<std::uint64_t>(ids.expire_us));
  return bytes;
}

bool DecodeToolIds(std::string_view bytes, MessageDraft& message) {
  if (bytes.empty()) return true;
  MessageIds& ids = message.ids.value();
  if (!TakeStrings(bytes, ids.calls) || !TakeStrings(bytes, ids.results)) return false;
  if (bytes.empty()) return true;
  const std::optional<std::uint64_t> expire_us = TakeVarint(bytes);
  if (!expire_us || *expire_us == 0 || !bytes.empty()) return false;
  ids.expire_us = static_cast<std::int64_t>(*expire_us);
  return true;
}

}  // namespace memoryd
