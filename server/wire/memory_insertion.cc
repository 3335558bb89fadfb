#include "server/wire/memory_insertion.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/blocks/block.h"
#include "core/model/body_reader.h"
#include "core/model/message.h"
#include "core/model/session_config.h"
#include "core/reads/context.h"
#include "memoryd/v1/memory.pb.h"
#include "server/wire/stored_body.h"

namespace memoryd {
namespace {

absl::StatusOr<v1::Message> ParseMessage(std::string_view body) {
  v1::Message message;
  if (!ParseBody(body, message)) {
    return absl::DataLossError("a stored body can't be read back");
  }
  return message;
}

// The message with `memory` ahead of its own parts.
std::string Prepend(const std::vector<BlockPart>& memory, v1::Message message) {
  v1::Message whole = message;
  whole.clear_text();
  whole.clear_parts();
  for (const BlockPart& part : memory) {
    FillPart(part, *whole.add_parts());
  }
  if (message.has_text()) whole.add_parts()->set_text(message.text());
  for (v1::Part& part : *message.mutable_parts()) *whole.add_parts() = std::move(part);
  // The one form of a message of one text.
  if (whole.parts_size() == 1 && whole.parts(0).has_text()) {
    std::string text = std::move(*whole.mutable_parts(0)->mutable_text());
    whole.clear_parts();
    whole.set_text(std::move(text));
  }
  return whole.SerializeAsString();
}

}  // namespace

std::vector<std::string> BlockMessageBodies(const Context& context) {
  std::vector<std::string> bodies;
  bodies.reserve(context.block_messages.size());
  for (const StoredMessage& message : context.block_messages) {
    v1::Message wire;
    FillMessage(message, wire);
    bodies.push_back(wire.SerializeAsString());
  }
  return bodies;
}

absl::StatusOr<std::optional<MadeMessage>> InsertMemory(
    const Context& context, const std::vector<std::string>& block_messages) {
  if (context.memory.empty()) return std::nullopt;
  const bool into_system = context.insert_method == InsertMethod::kSystem;
  const std::size_t count = block_messages.size() + context.messages.size();
  MadeMessage made;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t index = into_system ? i : count - 1 - i;
    const bool of_block = index < block_messages.size();
    // What a stored message's role means is known without a look at its body.
    if (!of_block && context.messages[index - block_messages.size()]->role !=
                         (into_system ? Role::kSystem : Role::kUser)) {
      continue;
    }
    MEMORYD_ASSIGN_OR_RETURN(
        v1::Message message,
        ParseMessage(of_block ? block_messages[index]
                              : context.messages[index - block_messages.size()]->body));
    if (message.role() != (into_system ? "system" : "user")) continue;
    made.index = index;
    made.replaces = true;
    made.body = Prepend(context.memory, std::move(message));
    return made;
  }
  v1::Message message;
  message.set_role(into_system ? "system" : "user");
  made.index = into_system ? 0 : count;
  made.body = Prepend(context.memory, std::move(message));
  return made;
}

}  // namespace memoryd
