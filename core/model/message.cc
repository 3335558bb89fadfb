#include "core/model/message.h"

#include <array>
#include <charconv>
#include <cstddef>

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

}  // namespace memoryd
