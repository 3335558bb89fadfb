#include "core/policy/policy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/model/message.h"
#include "core/model/session.h"
#include "core/policy/active_view.h"
#include "core/policy/units.h"

namespace memoryd {
namespace {

bool IsUser(const Message& message) { return message.role == Role::kUser; }

double Threshold(const FlushLimits& limits) {
  return static_cast<double>(limits.token_limit) * limits.ratio;
}

bool IsAbove(std::int64_t tokens, double threshold) {
  return static_cast<double>(tokens) > threshold;
}

std::int64_t TokensOf(const Message& message) { return message.token_count; }

// What leaves with each unit where the oldest messages leave: what stands from its beginning to
// that of the next one, be it late results of others. The first one is the opening message, if any.
template <typename SizeOf>
std::vector<UnitSize> LeavingUnits(const ActiveView& view, const Message* opening,
                                   const SizeOf& size_of) {
  const Units units(view);
  std::vector<UnitSize> sizes;
  if (opening != nullptr) sizes.push_back({0, size_of(*opening), true});
  for (std::size_t i = 0; i < view.size(); ++i) {
    // What stands behind an opening message may leave without it.
    if (i == 0 || units.BeginsUnit(i) || sizes.back().begins_turn) {
      sizes.push_back({i, 0, units.BeginsUnit(i) && BeginsTurn(view.at(i))});
    }
    sizes.back().size += size_of(view.at(i));
  }
  return sizes;
}

// The units of a view that stand whole, each with its messages.
struct WholeUnit {
  std::size_t begin = 0;
  std::vector<std::size_t> results;
};

std::vector<WholeUnit> FindWholeUnits(const ActiveView& view) {
  const Units units(view);
  std::vector<WholeUnit> whole;
  whole.reserve(view.size());
  // Where each unit stands in `whole`.
  std::vector<std::size_t> place(units.plain() ? 0 : view.size());
  for (std::size_t i = 0; i < view.size(); ++i) {
    const std::size_t unit = units.UnitOf(i);
    if (unit == i) {
      if (!units.plain()) place[i] = whole.size();
      whole.push_back({i, {}});
    } else if (unit != Units::kNoUnit) {
      whole[place[unit]].results.push_back(i);
    }
  }
  if (units.plain()) return whole;
  const std::size_t newest = whole.empty() ? 0 : whole.back().begin;
  std::erase_if(whole, [&](const WholeUnit& unit) {
    return !units.IsComplete(unit.begin) && (unit.begin != newest || units.IsTorn(unit.begin));
  });
  return whole;
}

void Append(const WholeUnit& unit, std::vector<std::size_t>& messages) {
  messages.push_back(unit.begin);
  messages.insert(messages.end(), unit.results.begin(), unit.results.end());
}

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

const Message* OpeningOf(const ActiveView& view, const Message* opening) {
  return view.size() > 0 && BeginsTurn(view.at(0)) ? nullptr : opening;
}

std::vector<std::size_t> DefaultFlush(const ActiveView& view, const Message* opening,
                                      std::int64_t active_tokens, const FlushLimits& limits) {
  const double threshold = Threshold(limits);
  if (!IsAbove(active_tokens, threshold)) return {};
  const auto fits = [&](std::int64_t tokens) {
    return !IsAbove(active_tokens - tokens, threshold);
  };
  const auto enough = [&](std::int64_t tokens) {
    return tokens >= limits.flush_size && fits(tokens);
  };
  const std::vector<UnitSize> units = LeavingUnits(view, OpeningOf(view, opening), &TokensOf);
  const UnitCut cut = CutOldestUnits(units, fits, enough);
  if (cut.first == 0) return {};
  return {units[cut.first].begin};
}

MessagePtr OpeningAfter(const ActiveView& view, std::size_t leaving, const MessagePtr& opening) {
  if (leaving < view.size() && BeginsTurn(view.at(leaving))) return nullptr;
  for (std::size_t i = leaving; i > 0; --i) {
    if (BeginsTurn(view.at(i - 1))) return view.pointer(i - 1);
  }
  return opening;
}

std::int64_t ActiveSize(const Message& message) {
  return static_cast<std::int64_t>(message.body.size()) + kActiveMessageBytes;
}

std::vector<std::size_t> ByteFlush(const ActiveView& view, std::int64_t surplus, bool more) {
  // Of a round: a job holds its messages in memory.
  constexpr std::int64_t kRoundBytes = std::int64_t{16} << 20;
  const std::size_t most = more ? view.size() : view.size() - std::min<std::size_t>(1, view.size());
  if (surplus <= 0 || most == 0) return {};
  const auto enough = [surplus](std::int64_t bytes) { return bytes >= surplus; };
  // Where the newest turn ends is not to be seen with `more`.
  const auto fits = [&](std::int64_t bytes) { return more || enough(bytes); };
  const std::vector<UnitSize> units = LeavingUnits(view, nullptr, &ActiveSize);
  const UnitCut units_cut = CutOldestUnits(units, fits, enough);
  std::size_t cut = units_cut.first == 0 ? 0 : units[units_cut.first].begin;
  std::int64_t leaving = 0;
  for (std::size_t i = 0; i < cut; ++i) leaving += ActiveSize(view.at(i));
  // The turns behind what is shown may be enough.
  if (more ? cut == 0 : !enough(leaving)) {
    while (cut < most && leaving < surplus) leaving += ActiveSize(view.at(cut++));
    // Their calls' results with them, if that can be.
    std::size_t whole = cut;
    while (whole < most && AnswersEarlierCall(view.at(whole))) ++whole;
    if (whole < most) cut = whole;
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

Window DefaultWindow(const ActiveView& view, const Message* opening, std::int64_t pinned_tokens,
                     std::int64_t token_limit) {
  Window window;
  window.tokens = pinned_tokens;
  opening = OpeningOf(view, opening);
  const std::vector<WholeUnit> whole = FindWholeUnits(view);
  auto shown = whole.begin();
  if (opening == nullptr) {
    shown = std::find_if(whole.begin(), whole.end(), [&view](const WholeUnit& unit) {
      return BeginsTurn(view.at(unit.begin));
    });
    if (shown == whole.end()) shown = whole.begin();
  }
  std::vector<UnitSize> units;
  units.reserve(whole.size() + 1);
  if (opening != nullptr) units.push_back({Units::kNoUnit, opening->token_count, true});
  for (auto unit = shown; unit != whole.end(); ++unit) {
    std::int64_t tokens = view.at(unit->begin).token_count;
    for (const std::size_t result : unit->results) tokens += view.at(result).token_count;
    units.push_back(
        {static_cast<std::size_t>(unit - whole.begin()), tokens, BeginsTurn(view.at(unit->begin))});
  }
  for (const UnitSize& unit : units) window.tokens += unit.size;
  UnitCut cut;
  if (window.tokens > token_limit) {
    const std::int64_t tokens = window.tokens;
    const auto fits = [=](std::int64_t size) { return tokens - size <= token_limit; };
    cut = CutOldestUnits(units, fits, fits);
    window.tokens -= cut.size;
  }
  window.over_limit_tokens = std::max<std::int64_t>(0, window.tokens - token_limit);
  const auto take = [&](std::size_t i) {
    if (units[i].begin == Units::kNoUnit) {
      window.opening = true;
    } else {
      Append(whole[units[i].begin], window.messages);
    }
  };
  window.messages.reserve(view.size());
  if (cut.keeps_opening) take(cut.opening);
  for (std::size_t i = cut.first; i < units.size(); ++i) take(i);
  return window;
}

std::vector<std::size_t> WholeUnits(const ActiveView& view) {
  std::vector<std::size_t> messages;
  messages.reserve(view.size());
  for (const WholeUnit& unit : FindWholeUnits(view)) Append(unit, messages);
  // As they stand: a library knows no other order.
  std::sort(messages.begin(), messages.end());
  return messages;
}

}  // namespace memoryd
