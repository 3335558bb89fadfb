#include "core/model/message.h"

#include <fmt/format.h>

#include <charconv>

namespace memoryd {

std::string MessageId(const Message& message, std::uint64_t generation) {
  if (!message.message_id.empty()) return message.message_id;
  return fmt::format("{:016x}-{}", generation, message.position);
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
