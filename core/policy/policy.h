// What stays in short-term memory and what a Get returns: pure functions over the active messages.
#ifndef MEMORYD_CORE_POLICY_POLICY_H_
#define MEMORYD_CORE_POLICY_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "core/model/message.h"

namespace memoryd {

// The active messages as a policy sees them, oldest first, without the pinned ones: those of
// `base` from index `dropped` on, then `appended`. Borrows both. Index 0 is the oldest message.
class ActiveView {
 public:
  // `dropped` is at most base.size().
  ActiveView(const std::deque<MessagePtr>& base, std::size_t dropped,
             std::span<const MessagePtr> appended)
      : base_(base), dropped_(dropped), kept_(base.size() - dropped), appended_(appended) {}

  std::size_t size() const { return kept_ + appended_.size(); }
  const Message& at(std::size_t i) const {
    return i < kept_ ? *base_[dropped_ + i] : *appended_[i - kept_];
  }

 private:
  const std::deque<MessagePtr>& base_;
  const std::size_t dropped_;
  const std::size_t kept_;
  const std::span<const MessagePtr> appended_;
};

struct FlushLimits {
  std::int64_t token_limit = 0;
  // A flush begins when the active tokens are above token_limit * ratio, a product of doubles.
  double ratio = 0;
  // The fewest tokens that leave in one round, where there are that many.
  std::int64_t flush_size = 0;
};

// Both flushes return how many of the oldest messages leave, round by round; each round is at least
// one message and one job. `active_tokens` is the sum over the view. At or below the threshold the
// cost is constant, else it grows with what leaves. One case costs a scan of the view although
// nothing leaves: a newest turn that is above the threshold alone.

// Profile llama-index: `Memory._manage_queue` of llama-index-core 0.14.25, to the message. A round
// may end with the newest message (a log without a user message is archived whole), and with
// flush_size 0 nothing leaves but messages ahead of the first user message.
std::vector<std::size_t> LlamaIndexFlush(const ActiveView& view, std::int64_t active_tokens,
                                         const FlushLimits& limits);

// Profile default: at most one round of whole turns, until flush_size tokens have left and the rest
// is at or below the threshold, or only the newest turn is left.
//
// A turn begins at a user message (the first also at index 0). A tool result belongs to the turn of
// its call, the latest message before it or itself that made a call of that id; turns tied together
// so count as one. A call without a result ties nothing: else one lost result would hold all that
// follows in short-term memory for ever.
std::vector<std::size_t> DefaultFlush(const ActiveView& view, std::int64_t active_tokens,
                                      const FlushLimits& limits);

// Bytes of one message among active ones: of its body, and kActiveMessageBytes.
std::int64_t ActiveSize(const Message& message);

// What leaves so that the view has at least `surplus` bytes less, and rounds of some 16 MiB: whole
// turns, as in DefaultFlush(). Where those are not enough, messages of the newest turn leave as
// well, without their calls' results staying if that can be; the newest message stays. `more`: the
// view is the oldest part of what is active, and all of it may leave.
std::vector<std::size_t> ByteFlush(const ActiveView& view, std::int64_t surplus, bool more);

// The most of the oldest messages, at most `cut`, that can go without a tool result staying behind
// whose call goes. Calls and results belong together as in DefaultFlush().
std::size_t CutBeforeCalls(const ActiveView& view, std::size_t cut);

// What profile default returns: the pinned messages and those of the view from `first` on.
struct Window {
  std::size_t first = 0;
  std::int64_t tokens = 0;  // Of all that is returned, pinned included.
  // How far the pinned messages and the newest turn alone are above the limit, else 0.
  std::int64_t over_limit_tokens = 0;
};

// Leaves whole turns out, oldest first, until the rest is within `token_limit` or is the newest
// turn. Constant cost when nothing is left out.
Window DefaultWindow(const ActiveView& view, std::int64_t pinned_tokens, std::int64_t active_tokens,
                     std::int64_t token_limit);

}  // namespace memoryd

#endif  // MEMORYD_CORE_POLICY_POLICY_H_
