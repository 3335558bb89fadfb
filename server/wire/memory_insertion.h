// Puts what blocks say into the messages of a Get.
#ifndef MEMORYD_SERVER_WIRE_MEMORY_INSERTION_H_
#define MEMORYD_SERVER_WIRE_MEMORY_INSERTION_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/engine/engine.h"

namespace memoryd {

// A message of a Get that is not as stored.
struct MadeMessage {
  // Where it goes: before, or in place of, the message of this index among those of the blocks and
  // then of the session.
  std::size_t index = 0;
  bool replaces = false;
  std::string body;  // A serialized memoryd.v1.Message.
};

// The messages of the blocks, as bodies.
std::vector<std::string> BlockMessageBodies(const Context& context);

// The one message that holds the insertion: the first system message with it ahead of its own
// parts, else a new system message ahead of all; or the last user message, else a new one at the
// end. nullopt when no block says anything. DATA_LOSS for a body that can't be read.
absl::StatusOr<std::optional<MadeMessage>> InsertMemory(
    const Context& context, const std::vector<std::string>& block_messages);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_WIRE_MEMORY_INSERTION_H_
