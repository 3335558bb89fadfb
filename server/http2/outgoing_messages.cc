#include "server/http2/outgoing_messages.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
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
  Outgoing& outgoing = messages_.emplace_back();
  outgoing.prefix = PrefixOf(message.size());
  outgoing.message = std::move(message);
  outgoing.hold = std::move(hold);
}

OutgoingMessages::Filled OutgoingMessages::Fill(std::span<std::uint8_t> buffer, TimePoint now) {
  const std::size_t size = buffer.size();
  Filled filled;
  last_progress_ = now;
  while (!buffer.empty() && next_ < messages_.size()) {
    Outgoing& outgoing = messages_[next_];
    if (outgoing.offset < kPrefixBytes) {
      outgoing.offset += Copy({outgoing.prefix.data(), kPrefixBytes}, outgoing.offset, buffer);
      if (outgoing.offset < kPrefixBytes) break;
    }
    outgoing.offset += Copy(outgoing.message, outgoing.offset - kPrefixBytes, buffer);
    if (outgoing.offset < kPrefixBytes + outgoing.message.size()) break;
    filled.ended_bytes += outgoing.message.size();
    outgoing.message = {};
    outgoing.hold.Release();
    ++next_;
  }
  filled.bytes = size - buffer.size();
  if (next_ == messages_.size()) Clear();
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
