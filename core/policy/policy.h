// What stays in short-term memory and what a Get returns: pure functions over the active messages.
#ifndef MEMORYD_CORE_POLICY_POLICY_H_
#define MEMORYD_CORE_POLICY_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/model/message.h"
#include "core/policy/active_view.h"

namespace memoryd {

struct FlushLimits {
  std::int64_t token_limit = 0;
  // A flush begins when the active tokens are above token_limit * ratio, a product of doubles.
  double ratio = 0;
  // The fewest tokens that leave in one round, where there are that many.
  std::int64_t flush_size = 0;
};

// All flushes return how many of the oldest messages leave, round by round; each round is at least
// one message and one job. `active_tokens` is the sum over the view, and the opening message's.

// Profile llama-index: `Memory._manage_queue` of llama-index-core 0.14.25, to the message. A round
// may end with the newest message (a log without a user message is archived whole), and with
// flush_size 0 nothing leaves but messages ahead of the first user message.
std::vector<std::size_t> LlamaIndexFlush(const ActiveView& view, std::int64_t active_tokens,
                                         const FlushLimits& limits);

// The message that opens the turn at the beginning of the view and has left it: `opening`, or null
// where the view begins with a turn of its own.
const Message* OpeningOf(const ActiveView& view, const Message* opening);

// Profile default (docs/POLICY.md): whole turns, the oldest first, until flush_size tokens have
// left and the rest is at or below the threshold, or only the newest turn is left. If that alone is
// above the threshold, its oldest units leave until as much has left; the newest unit stays, and so
// does the message that opens the turn, by OpeningAfter(). At most one round. Constant cost at or
// below the threshold, else it grows with the view.
std::vector<std::size_t> DefaultFlush(const ActiveView& view, const Message* opening,
                                      std::int64_t active_tokens, const FlushLimits& limits);

// What the view's first message belongs to once `leaving` messages have left: the message that
// opens its turn, or null where it opens one itself or none is known.
MessagePtr OpeningAfter(const ActiveView& view, std::size_t leaving, const MessagePtr& opening);

// Bytes of one message among active ones: of its body, and kActiveMessageBytes.
std::int64_t ActiveSize(const Message& message);

// What leaves so that the view has at least `surplus` bytes less, and rounds of some 16 MiB: whole
// turns, then units, as in DefaultFlush(). Where those are not enough, messages of the newest unit
// leave as well; the newest message stays. `more`: the view is the oldest part of what is active,
// and all of it may leave.
std::vector<std::size_t> ByteFlush(const ActiveView& view, std::int64_t surplus, bool more);

// What profile default returns besides the pinned messages.
struct Window {
  // Whether the message that opens the first turn comes first, though it has left the view.
  bool opening = false;
  // Indices of the view in the order of the reply: every result behind its call.
  std::vector<std::size_t> messages;
  std::int64_t tokens = 0;  // Of all that is returned, pinned included.
  // How far the pinned messages, the opening one and the newest unit are above the limit, else 0.
  std::int64_t over_limit_tokens = 0;
};

// Leaves out results whose call is gone, units without all results but for the newest one, where
// they are awaited, and what stands before the first message of the human side, if there is one.
// Then whole turns, oldest first, until the rest is within `token_limit` or is the newest turn, and
// units of that, but for the message that opens it and the newest unit. `opening`: see OpeningOf().
Window DefaultWindow(const ActiveView& view, const Message* opening, std::int64_t pinned_tokens,
                     std::int64_t token_limit);

// The indices of what a library's profile returns where retention or DeleteMessage may have taken
// halves: all but results whose call is gone, and units without all results but for the newest one.
std::vector<std::size_t> WholeUnits(const ActiveView& view);

}  // namespace memoryd

#endif  // MEMORYD_CORE_POLICY_POLICY_H_
