#include "core/reads/explain.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/policy/policy.h"
#include "core/policy/units.h"
#include "core/sessions/session.h"

namespace memoryd {
namespace {

// Why Get leaves out a message, by its index in short-term memory without what has expired.
class Reasons {
 public:
  explicit Reasons(const Session& live)
      : view_(live.active, 0, {}),
        units_(view_),
        has_limit_(live.config->counting.profile != Profile::kLlamaIndex) {
    for (newest_ = view_.size(); newest_ > 0 && !units_.BeginsUnit(newest_ - 1);) --newest_;
    if (!has_limit_) return;
    fits_without_limit_.resize(view_.size(), false);
    const Window window =
        DefaultWindow(view_, live.opening.get(), 0, std::numeric_limits<std::int64_t>::max());
    for (const std::size_t i : window.messages) fits_without_limit_[i] = true;
  }

  LeftOutReason Of(std::size_t i) const {
    if (has_limit_ && fits_without_limit_[i]) return LeftOutReason::kTokenLimit;
    const std::size_t unit = units_.UnitOf(i);
    if (unit == Units::kNoUnit || units_.IsTorn(unit)) return LeftOutReason::kResultWithoutCall;
    if (!units_.IsComplete(unit) && unit + 1 != newest_) return LeftOutReason::kCallWithoutResult;
    return LeftOutReason::kBeforeHuman;
  }

 private:
  const ActiveView view_;
  const Units units_;
  const bool has_limit_;    // A library shows what is over the limit too.
  std::size_t newest_ = 0;  // Behind where the newest unit begins.
  std::vector<bool> fits_without_limit_;
};

// Adds to the last range where `joins`, else as a new one.
void Add(const Message& message, LeftOutReason reason, bool joins, std::vector<LeftOut>& left_out) {
  if (!joins || left_out.empty() || left_out.back().reason != reason) {
    left_out.push_back({message.position, message.position, 0, 0, reason});
  }
  LeftOut& range = left_out.back();
  range.last_position = message.position;
  ++range.messages;
  range.tokens += message.token_count;
}

}  // namespace

Explanation Explain(const Session& session, const Session& live,
                    const std::vector<MessagePtr>& shown) {
  Explanation explanation;
  const SessionConfig& config = *session.config;
  const SessionRow& row = session.row;
  explanation.token_limit = config.token_limit;
  if (config.policy != PolicyKind::kBuffer) {
    explanation.short_term_token_limit = static_cast<std::int64_t>(
        static_cast<double>(config.token_limit) * config.chat_history_token_ratio);
  }
  explanation.token_flush_size = config.token_flush_size;
  explanation.watermark = row.watermark - 1;
  explanation.archived_count = row.archived_count;
  std::vector<std::int64_t> positions;
  positions.reserve(shown.size());
  for (const MessagePtr& message : shown) {
    positions.push_back(message->position);
    explanation.message_tokens += message->token_count;
    if (message.get() == live.opening.get()) explanation.opening_position = message->position;
  }
  std::sort(positions.begin(), positions.end());
  for (const MessagePtr& message : live.pinned) explanation.pinned_tokens += message->token_count;

  const auto is_live = [](const auto& messages, std::size_t at, const MessagePtr& message) {
    return at < messages.size() && messages[at].get() == message.get();
  };
  std::size_t at = 0;
  bool joins = false;
  for (const MessagePtr& message : session.pinned) {
    const bool kept = is_live(live.pinned, at, message);
    if (kept) {
      ++at;
    } else {
      Add(*message, LeftOutReason::kExpired, joins, explanation.left_out);
    }
    joins = !kept;
  }
  const Reasons reasons(live);
  at = 0;
  for (const MessagePtr& message : session.active) {
    const bool kept = is_live(live.active, at, message);
    const std::size_t i = at;
    if (kept) ++at;
    const bool returned =
        kept && std::binary_search(positions.begin(), positions.end(), message->position);
    if (!returned) {
      Add(*message, kept ? reasons.Of(i) : LeftOutReason::kExpired, joins, explanation.left_out);
    }
    joins = !returned;
  }
  return explanation;
}

}  // namespace memoryd
