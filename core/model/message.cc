#include "core/model/message.h"

#include <array>
#include <charconv>
#include <cstddef>

#include <charconv>

namespace memoryd {

std::string MessageId(const Message& message, std::uint64_t generation) {
  if (!message.message_id.empty()) return message.message_id;
  // By hand: a reply names each of its messages, and fmt took a sixth of a Get of 20 messages.
  constexpr std::size_t kDigits = 16;
  std::array<char, kDigits + 1 + 20> id;
  for (std::size_t i = kDigits; i-- > 0; generation >>= 4) {
    id[i] = "0123456789abcdef"[generation & 0xF];
  }
  id[kDigits] = '-';
  const auto end =
      std::to_chars(id.data() + kDigits + 1, id.data() + id.size(), message.position).ptr;
  return std::string(id.data(), end);
}

std::optional<std::int64_t> PositionInId(std::string_view id, std::uint64_t generation) {
  const std::string prefix = fmt::format("{:016x}-", generation);
  if (!id.starts_with(prefix)) return std::nullopt;
  id.remove_prefix(prefix.size());
  std::int64_t position = 0;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), position);
  if (error != std::errc() || end != id.data() + id.size() || position < 1 || id.front() == '0') {
    return std::nullopt;
  }
  return position;
}

}  // namespace memoryd
