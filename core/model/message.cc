#include "core/model/message.h"

#include <fmt/format.h>

namespace memoryd {

std::string MessageId(const Message& message, std::uint64_t generation) {
  if (!message.message_id.empty()) return message.message_id;
  return fmt::format("{:016x}-{}", generation, message.position);
}

}  // namespace memoryd
