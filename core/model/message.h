// A stored message, or memory content.
#ifndef MEMORYD_CORE_MODEL_MESSAGE_H_
#define MEMORYD_CORE_MODEL_MESSAGE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
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

  // Whether its own time is over.
  bool IsExpired(std::int64_t now_us) const { return expire_us > 0 && expire_us <= now_us; }

  friend bool operator==(const MessageIds&, const MessageIds&) = default;
};

class Message;

// A message that is being made: what a caller sent, or a store has read.
struct MessageDraft {
  MessageDraft() = default;
  explicit MessageDraft(const Message& message);

  std::int64_t position = 0;
  Role role = Role::kOther;
  std::int64_t token_count = 0;
  // Microseconds since the epoch, by the server's clock.
  std::int64_t ingest_us = 0;
  Rare<MessageIds> ids;
  // A serialized memoryd.v1.Message without the fields that the server adds to replies. Opaque
  // to the core: what is stored is what is sent (docs/adr/0002-stored-form-is-wire-form.md).
  std::string body;

  bool IsExpired(std::int64_t now_us) const { return ids->IsExpired(now_us); }
  // Takes no memory when it is empty.
  void SetMessageId(std::string id) {
    if (!id.empty()) ids.value().message_id = std::move(id);
  }
};

// What a message gets with its commit.
struct MessagePlace {
  std::int64_t position = 0;
  std::int64_t token_count = 0;
  std::int64_t ingest_us = 0;
};

class MessagePtr;

// The same, immutable: shared between the cache and the replies under way. One piece of memory with
// its body, which is what a session in memory mostly consists of: 160 bytes where a shared_ptr to a
// struct with a string took 208, for a text of 88 (docs/BENCHMARKS.md, warm sessions).
class Message {
 public:
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  const std::int64_t position;
  const std::int64_t ingest_us;
  const Rare<MessageIds> ids;
  const std::string_view body;
  // A count that is larger than there is room for, such as one of a thousand parts whose counts a
  // caller gave, is the largest.
  const std::int32_t token_count;

  // Of MessagePtr alone. Public since all members have to be of one kind for the body's place to be
  // known.
  mutable std::atomic<std::uint32_t> references{1};
  const Role role;

  bool IsExpired(std::int64_t now_us) const { return ids->IsExpired(now_us); }
  // Approximate memory that a cached message takes.
  std::size_t ByteSize() const;

 private:
  friend class MessagePtr;
  static const Message* New(const MessageDraft& draft, const MessagePlace& place);
  static void Delete(const Message* message);
  Message(const MessageDraft& draft, const MessagePlace& place, std::string_view kept_body);
  ~Message() = default;
};

// Shared ownership of a message, or null. Of one pointer several threads may copy what none
// changes, as of a std::shared_ptr.
class MessagePtr {
 public:
  using element_type = const Message;

  MessagePtr() = default;
  MessagePtr(std::nullptr_t) {}  // NOLINT(google-explicit-constructor): as any pointer.
  // NOLINTNEXTLINE(google-explicit-constructor): what is kept of a draft is a message.
  MessagePtr(const MessageDraft& draft)
      : MessagePtr(draft, {draft.position, draft.token_count, draft.ingest_us}) {}
  // With these in place of the draft's.
  MessagePtr(const MessageDraft& draft, const MessagePlace& place)
      : message_(Message::New(draft, place)) {}
  MessagePtr(const MessagePtr& other) : message_(other.message_) {
    if (message_ != nullptr) message_->references.fetch_add(1, std::memory_order_relaxed);
  }
  MessagePtr(MessagePtr&& other) noexcept : message_(std::exchange(other.message_, nullptr)) {}
  ~MessagePtr() {
    if (message_ != nullptr && message_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      Message::Delete(message_);
    }
  }
  MessagePtr& operator=(MessagePtr other) noexcept {
    std::swap(message_, other.message_);
    return *this;
  }

  const Message* get() const { return message_; }
  const Message& operator*() const { return *message_; }
  const Message* operator->() const { return message_; }
  explicit operator bool() const { return message_ != nullptr; }
  // Of the pointers, not of what they point to.
  friend bool operator==(const MessagePtr&, const MessagePtr&) = default;

 private:
  const Message* message_ = nullptr;
};

// A memory content is kept as a message is, under a generation and positions of its own:
// `message_id` is the content_id, `body` a serialized memoryd.v1.Content; role and tool ids are not
// used, `expire_us` is.
using Content = Message;
using ContentDraft = MessageDraft;
using ContentPtr = MessagePtr;

// What the caller named it, else a name made of its place.
std::string MessageId(const Message& message, std::uint64_t generation);

// The position that MessageId() made a name of; nullopt for what it did not make in this
// generation.
std::optional<std::int64_t> PositionInId(std::string_view id, std::uint64_t generation);

}  // namespace memoryd

#endif  // MEMORYD_CORE_MODEL_MESSAGE_H_
