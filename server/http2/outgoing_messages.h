// The messages of a reply on their way into frames.
#ifndef MEMORYD_SERVER_HTTP2_OUTGOING_MESSAGES_H_
#define MEMORYD_SERVER_HTTP2_OUTGOING_MESSAGES_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/memory_budget.h"
#include "server/http2/call_messages.h"
#include "server/http2/http2_times.h"

namespace memoryd {

// Each leaves with gRPC's prefix before it, and is held until all of it has left.
class OutgoingMessages {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // From this size on a message is not copied into frames.
  static constexpr std::size_t kLarge = 8 << 10;

  struct Filled {
    std::size_t bytes = 0;
    // Of the messages that have left with these, without their prefixes.
    std::size_t ended_bytes = 0;
    // Set where the bytes are a part of one large message: `prefix`, then `message`. Nothing was
    // copied then, and both are valid for as long as `owner` is held.
    std::shared_ptr<const void> owner;
    std::string_view prefix;
    std::string_view message;
  };

  void Add(std::string message, MemoryBudget::Hold hold, TimePoint now);
  // As much as there is and fits into `buffer`: copied there, or a part of one large message.
  Filled Fill(std::span<std::uint8_t> buffer, TimePoint now);
  void Clear();

  // Nothing waits.
  bool empty() const { return messages_.empty(); }
  // The next one is large.
  bool is_large() const { return next_ < messages_.size() && messages_[next_].large != nullptr; }
  // Whether what waits is read too slowly.
  bool IsTooSlow(const Http2Times& times, TimePoint now) const;

 private:
  struct Outgoing {
    std::array<char, kPrefixBytes> prefix;
    std::string message;
    MemoryBudget::Hold hold;
  };
  struct Waiting {
    Outgoing small;
    // In place of `small`: shared with the frames that have a part of it.
    std::shared_ptr<const Outgoing> large;
    std::size_t offset = 0;  // Of prefix and message together.
  };

  // A part of the large message that is the next one.
  Filled Refer(std::size_t size);

  std::vector<Waiting> messages_;
  std::size_t next_ = 0;   // The first of them that has not left.
  std::size_t bytes_ = 0;  // Of all that came since none waited.
  TimePoint since_;
  TimePoint last_progress_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_OUTGOING_MESSAGES_H_
