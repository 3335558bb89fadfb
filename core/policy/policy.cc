#include "core/policy/policy.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "core/model/session.h"

namespace memoryd {
namespace {

bool IsUser(const Message& message) { return message.role == Role::kUser; }

double Threshold(const FlushLimits& limits) {
  return static_cast<double>(limits.token_limit) * limits.ratio;
}

bool IsAbove(std::int64_t tokens, double threshold) {
  return static_cast<double>(tokens) > threshold;
}

// For each index whether a tool call before it has its result at or after it. Empty when no message
// answers an earlier one's call.
std::vector<bool> TiedToPrevious(const ActiveView& view) {
  std::unordered_map<std::string_view, std::size_t> latest_call;
  // Of the ties that hold message i to the one before it: begun minus ended at i.
  std::vector<std::int32_t> delta;
  for (std::size_t i = 0; i < view.size(); ++i) {
    const Message& message = view.at(i);
    for (const std::string& id : message.ids->calls) latest_call[id] = i;
    for (const std::string& id : message.ids->results) {
      const auto call = latest_call.find(id);
      if (call == latest_call.end() || call->second == i) continue;
      delta.resize(view.size() + 1);
      ++delta[call->second + 1];
      --delta[i + 1];
    }
  }
  std::vector<bool> tied(delta.size());
  std::int32_t open = 0;
  for (std::size_t i = 0; i < delta.size(); ++i) {
    open += delta[i];
    tied[i] = open > 0;
  }
  return tied;
}

struct Cut {
  std::size_t index = 0;
  std::int64_t size = 0;  // Of the messages before `index`.
};

// The first place between two turns at which `enough(size before it)`, else the last such place;
// index 0 when there is only one turn. `tied` is TiedToPrevious().
template <typename SizeOf, typename Enough>
Cut CutBetweenTurns(const ActiveView& view, const std::vector<bool>& tied, const SizeOf& size_of,
                    const Enough& enough) {
  Cut cut;
  std::int64_t size = 0;
  for (std::size_t i = 0; i < view.size(); ++i) {
    if (i > 0 && IsUser(view.at(i)) && (tied.empty() || !tied[i])) {
      cut = {i, size};
      if (enough(size)) break;
    }
    size += size_of(view.at(i));
  }
  return cut;
}

std::int64_t TokensOf(const Message& message) { return message.token_count; }

}  // namespace

std::vector<std::size_t> LlamaIndexFlush(const ActiveView& view, std::int64_t active_tokens,
                                         const FlushLimits& limits) {
  std::vector<std::size_t> rounds;
  const double threshold = Threshold(limits);
  const std::size_t end = view.size();
  std::size_t begin = 0;  // The messages from here on are still active.
  while (IsAbove(active_tokens, threshold) && end - begin > 1) {
    const std::size_t round_begin = begin;
    std::int64_t flushed = 0;
    while (flushed < limits.flush_size && end - begin > 1) {
      flushed += view.at(begin++).token_count;
    }
    while (end - begin > 1 && !IsUser(view.at(begin))) flushed += view.at(begin++).token_count;

    if (begin > round_begin && !IsUser(view.at(begin))) {
      // Only the newest message is left and no user sent it. The last whole turn stays, if any.
      std::size_t turn = begin;
      std::int64_t turn_tokens = view.at(turn).token_count;
      flushed += turn_tokens;
      while (turn > round_begin && !IsUser(view.at(turn))) {
        turn_tokens += view.at(--turn).token_count;
      }
      const bool found = IsUser(view.at(turn));
      begin = found ? turn : end;
      if (found) flushed -= turn_tokens;
    }
    if (begin == round_begin) break;
    rounds.push_back(begin - round_begin);
    active_tokens -= flushed;
  }
  return rounds;
}

std::vector<std::size_t> DefaultFlush(const ActiveView& view, std::int64_t active_tokens,
                                      const FlushLimits& limits) {
  const double threshold = Threshold(limits);
  if (!IsAbove(active_tokens, threshold)) return {};
  const auto enough = [&](std::int64_t tokens) {
    return tokens >= limits.flush_size && !IsAbove(active_tokens - tokens, threshold);
  };
  const Cut cut = CutBetweenTurns(view, TiedToPrevious(view), &TokensOf, enough);
  if (cut.index == 0) return {};
  return {cut.index};
}

std::int64_t ActiveSize(const Message& message) {
  return static_cast<std::int64_t>(message.body.size()) + kActiveMessageBytes;
}

std::vector<std::size_t> ByteFlush(const ActiveView& view, std::int64_t surplus, bool more) {
  // Of a round: a job holds its messages in memory.
  constexpr std::int64_t kRoundBytes = std::int64_t{16} << 20;
  const std::size_t most = more ? view.size() : view.size() - std::min<std::size_t>(1, view.size());
  if (surplus <= 0 || most == 0) return {};
  const std::vector<bool> tied = TiedToPrevious(view);
  const Cut turns = CutBetweenTurns(view, tied, &ActiveSize,
                                    [surplus](std::int64_t bytes) { return bytes >= surplus; });
  std::size_t cut = turns.index;
  // The turns behind what is shown may be enough.
  if (turns.size < surplus && !(more && cut > 0)) {
    std::int64_t bytes = turns.size;
    while (cut < most && bytes < surplus) bytes += ActiveSize(view.at(cut++));
    std::size_t whole = cut;
    while (whole < most && whole < tied.size() && tied[whole]) ++whole;
    if (whole >= tied.size() || !tied[whole]) cut = whole;
  }
  std::vector<std::size_t> rounds;
  std::int64_t round_bytes = 0;
  for (std::size_t i = 0; i < cut; ++i) {
    const std::int64_t bytes = ActiveSize(view.at(i));
    if (rounds.empty() || round_bytes + bytes > kRoundBytes) {
      rounds.push_back(0);
      round_bytes = 0;
    }
    ++rounds.back();
    round_bytes += bytes;
  }
  return rounds;
}

std::size_t CutBeforeCalls(const ActiveView& view, std::size_t cut) {
  bool calls = false;
  for (std::size_t i = 0; i < cut && !calls; ++i) calls = !view.at(i).ids->calls.empty();
  if (!calls) return cut;
  const std::vector<bool> tied = TiedToPrevious(view);
  while (cut > 0 && cut < tied.size() && tied[cut]) --cut;
  return cut;
}

Window DefaultWindow(const ActiveView& view, std::int64_t pinned_tokens, std::int64_t active_tokens,
                     std::int64_t token_limit) {
  const std::int64_t tokens = pinned_tokens + active_tokens;
  if (tokens <= token_limit) return {0, tokens, 0};
  const Cut cut = CutBetweenTurns(view, TiedToPrevious(view), &TokensOf, [&](std::int64_t before) {
    return tokens - before <= token_limit;
  });
  const std::int64_t left = tokens - cut.size;
  return {cut.index, left, std::max<std::int64_t>(0, left - token_limit)};
}

}  // namespace memoryd
