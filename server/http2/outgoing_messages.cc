#include "server/http2/outgoing_messages.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/memory_budget.h"
#include "server/http2/call_messages.h"
#include "server/http2/http2_times.h"

namespace memoryd {
namespace {

// Copies what fits of `from` behind `offset` to the front of `buffer`, which loses that.
std::size_t Copy(std::string_view from, std::size_t offset, std::span<std::uint8_t>& buffer) {
  const std::size_t part = std::min(from.size() - offset, buffer.size());
  std::memcpy(buffer.data(), from.data() + offset, part);
  buffer = buffer.subspan(part);
  return part;
}

}  // namespace

void OutgoingMessages::Add(std::string message, MemoryBudget::Hold hold, TimePoint now) {
  if (messages_.empty()) {
    since_ = last_progress_ = now;
    bytes_ = 0;
  }
  bytes_ += message.size();
  const auto large = message.size() < kLarge ? nullptr : std::make_shared<Outgoing>();
  Waiting& waiting = messages_.emplace_back();
  waiting.large = large;
  Outgoing& outgoing = large == nullptr ? waiting.small : *large;
  outgoing.prefix = PrefixOf(message.size());
  outgoing.message = std::move(message);
  outgoing.hold = std::move(hold);
}

OutgoingMessages::Filled OutgoingMessages::Fill(std::span<std::uint8_t> buffer, TimePoint now) {
  const std::size_t size = buffer.size();
  Filled filled;
  last_progress_ = now;
  if (is_large()) return Refer(size);
  while (!buffer.empty() && next_ < messages_.size() && !is_large()) {
    auto& [outgoing, large, offset] = messages_[next_];
    if (offset < kPrefixBytes) {
      offset += Copy({outgoing.prefix.data(), kPrefixBytes}, offset, buffer);
      if (offset < kPrefixBytes) break;
    }
    offset += Copy(outgoing.message, offset - kPrefixBytes, buffer);
    if (offset < kPrefixBytes + outgoing.message.size()) break;
    filled.ended_bytes += outgoing.message.size();
    outgoing = {};
    ++next_;
  }
  filled.bytes = size - buffer.size();
  if (next_ == messages_.size()) Clear();
  return filled;
}

OutgoingMessages::Filled OutgoingMessages::Refer(std::size_t size) {
  Waiting& waiting = messages_[next_];
  const Outgoing& outgoing = *waiting.large;
  Filled filled;
  filled.owner = waiting.large;
  const std::size_t prefix_sent = std::min(waiting.offset, kPrefixBytes);
  filled.prefix =
      std::string_view(outgoing.prefix.data(), kPrefixBytes).substr(prefix_sent).substr(0, size);
  filled.message = std::string_view(outgoing.message)
                       .substr(waiting.offset - prefix_sent, size - filled.prefix.size());
  filled.bytes = filled.prefix.size() + filled.message.size();
  waiting.offset += filled.bytes;
  if (waiting.offset == kPrefixBytes + outgoing.message.size()) {
    filled.ended_bytes = outgoing.message.size();
    waiting.large.reset();
    ++next_;
    if (next_ == messages_.size()) Clear();
  }
  return filled;
}

void OutgoingMessages::Clear() {
  messages_.clear();
  next_ = 0;
}

bool OutgoingMessages::IsTooSlow(const Http2Times& times, TimePoint now) const {
  if (messages_.empty()) return false;
  return now > last_progress_ + times.reply_unread || now > since_ + times.ForMessage(bytes_);
}

}  // namespace memoryd
