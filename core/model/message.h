// A stored message, or memory content.
#ifndef MEMORYD_CORE_MODEL_MESSAGE_H_
#define MEMORYD_CORE_MODEL_MESSAGE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/rare.h"

namespace memoryd {

// What policies need to know of a role. The role as sent is in the body. The numbers are stored.
enum class Role : std::uint8_t {
  kOther = 0,
  kUser = 1,
  kAssistant = 2,
  kSystem = 3,
  kDeveloper = 4,
  kTool = 5,
};

// What few messages have.
struct MessageIds {
  // What the caller gave, else empty: derived from generation and position, not stored.
  std::string message_id;
  // Of the tool calls made in the message, and of those answered in it.
  std::vector<std::string> calls;
  std::vector<std::string> results;
  // No id, but as rare: when it goes by itself, in microseconds since the epoch; 0: never.
  std::int64_t expire_us = 0;

  friend bool operator==(const MessageIds&, const MessageIds&) = default;
};

// Immutable once it has its position; shared between the cache and the replies under way.
struct Message {
  std::int64_t position = 0;
  Role role = Role::kOther;
  std::int64_t token_count = 0;
  // Microseconds since the epoch, by the server's clock.
  std::int64_t ingest_us = 0;
  Rare<MessageIds> ids;
  // A serialized memoryd.v1.Message without the fields that the server adds to replies. Opaque
  // to the core: what is stored is what is sent (docs/adr/0002-stored-form-is-wire-form.md).
  std::string body;

  // Takes no memory when it is empty.
  void SetMessageId(std::string id) {
    if (!id.empty()) ids.value().message_id = std::move(id);
  }
  // Whether its own time is over.
  bool IsExpired(std::int64_t now_us) const {
    return ids->expire_us > 0 && ids->expire_us <= now_us;
  }
  // Approximate memory that a cached message takes.
  std::size_t ByteSize() const;
};

using MessagePtr = std::shared_ptr<const Message>;

// A memory content is kept as a message is, under a generation and positions of its own:
// `message_id` is the content_id, `body` a serialized memoryd.v1.Content; role and tool ids are not
// used, `expire_us` is.
using Content = Message;
using ContentPtr = MessagePtr;

// What the caller named it, else a name made of its place.
std::string MessageId(const Message& message, std::uint64_t generation);

// The position that MessageId() made a name of; nullopt for what it did not make in this
// generation.
std::optional<std::int64_t> PositionInId(std::string_view id, std::uint64_t generation);

}  // namespace memoryd

#endif  // MEMORYD_CORE_MODEL_MESSAGE_H_
