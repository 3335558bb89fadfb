#include "core/model/message.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>

namespace memoryd {
namespace {

// 16 hexadecimal digits of the generation, and a hyphen.
constexpr std::size_t kPrefixBytes = 17;

// Not by fmt: a reply names each of its messages, see docs/adr/0024.
void WritePrefix(std::uint64_t generation, char* out) {
  out[kPrefixBytes - 1] = '-';
  for (std::size_t i = kPrefixBytes - 1; i-- > 0; generation >>= 4) {
    out[i] = "0123456789abcdef"[generation & 0xF];
  }
}

}  // namespace

MessageDraft::MessageDraft(const Message& message)
    : position(message.position),
      role(message.role),
      token_count(message.token_count),
      ingest_us(message.ingest_us),
      ids(message.ids),
      body(message.body) {}

Message::Message(const MessageDraft& draft, const MessagePlace& place, std::string_view kept_body)
    : position(place.position),
      ingest_us(place.ingest_us),
      ids(draft.ids),
      body(kept_body),
      token_count(static_cast<std::int32_t>(
          std::min<std::int64_t>(place.token_count, std::numeric_limits<std::int32_t>::max()))),
      role(draft.role) {}

// The body begins with the padding behind the last member. With clang a unique_ptr, as in `ids`,
// keeps a class from being of standard layout; where it has no virtual base both compilers know the
// place all the same.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
constexpr std::size_t kBodyAt = offsetof(Message, role) + sizeof(Role);
#pragma GCC diagnostic pop

const Message* Message::New(const MessageDraft& draft, const MessagePlace& place) {
  const std::size_t size = draft.body.size();
  void* const memory = ::operator new(std::max(sizeof(Message), kBodyAt + size));
  char* const body = static_cast<char*>(memory) + kBodyAt;
  const Message* const message = new (memory) Message(draft, place, std::string_view(body, size));
  std::memcpy(body, draft.body.data(), size);
  return message;
}

void Message::Delete(const Message* message) {
  message->~Message();
  ::operator delete(const_cast<Message*>(message));
}

std::size_t Message::ByteSize() const {
  // The allocator's own, and a pointer to it.
  constexpr std::size_t kOverhead = 24;
  std::size_t size = kBodyAt + kOverhead + body.size();
  if (*ids == MessageIds()) return size;
  size += sizeof(MessageIds) + ids->message_id.size();
  for (const auto* some : {&ids->calls, &ids->results}) {
    for (const std::string& id : *some) size += sizeof id + id.size();
  }
  return size;
}

std::string MessageId(const Message& message, std::uint64_t generation) {
  if (!message.ids->message_id.empty()) return message.ids->message_id;
  std::array<char, kPrefixBytes + 20> id;
  WritePrefix(generation, id.data());
  const auto end =
      std::to_chars(id.data() + kPrefixBytes, id.data() + id.size(), message.position).ptr;
  return std::string(id.data(), end);
}

std::optional<std::int64_t> PositionInId(std::string_view id, std::uint64_t generation) {
  std::array<char, kPrefixBytes> prefix;
  WritePrefix(generation, prefix.data());
  if (!id.starts_with(std::string_view(prefix.data(), prefix.size()))) return std::nullopt;
  id.remove_prefix(prefix.size());
  std::int64_t position = 0;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), position);
  if (error != std::errc() || end != id.data() + id.size() || position < 1 || id.front() == '0') {
    return std::nullopt;
  }
  return position;
}

}  // namespace memoryd
