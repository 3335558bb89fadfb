#include "core/policy/units.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/model/message.h"
#include "core/policy/active_view.h"

namespace memoryd {
namespace {

bool Contains(const std::vector<std::string>& ids, const std::string& id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

bool BeginsTurn(const Message& message) {
  return message.role == Role::kUser && message.ids->results.empty();
}

bool AnswersEarlierCall(const Message& message) {
  const std::vector<std::string>& calls = message.ids->calls;
  const std::vector<std::string>& results = message.ids->results;
  return std::any_of(results.begin(), results.end(),
                     [&calls](const std::string& id) { return !Contains(calls, id); });
}

std::size_t NewestUnit(const ActiveView& view) {
  std::size_t i = view.size();
  while (i > 0) {
    if (!AnswersEarlierCall(view.at(--i))) return i;
  }
  return 0;
}

Units::Units(const ActiveView& view) {
  Calls latest_calls;
  for (std::size_t i = 0; i < view.size(); ++i) {
    const MessageIds& ids = *view.at(i).ids;
    if (ids.calls.empty() && ids.results.empty()) {
      if (!plain()) AddUnit();
      continue;
    }
    while (unit_of_.size() <= i) AddUnit();
    unit_of_[i] = Answer(i, ids, latest_calls);
    if (unit_of_[i] == kNoUnit) continue;
    for (const std::string& id : ids.calls) {
      const bool answered = Contains(ids.results, id);
      if (!answered) ++open_[unit_of_[i]];
      latest_calls[id] = {i, answered};
    }
  }
}

void Units::AddUnit() {
  unit_of_.push_back(unit_of_.size());
  open_.push_back(0);
  torn_.push_back(false);
}

std::size_t Units::Answer(std::size_t i, const MessageIds& ids, Calls& latest_calls) {
  std::size_t unit = i;
  bool lost = false;
  for (const std::string& id : ids.results) {
    if (Contains(ids.calls, id)) continue;
    const auto call = latest_calls.find(id);
    if (call == latest_calls.end()) {
      lost = true;
      continue;
    }
    const std::size_t of_call = unit_of_[call->second.message];
    if (!call->second.answered) --open_[of_call];
    call->second.answered = true;
    unit = unit == i ? of_call : Join(unit, of_call, i);
  }
  if (lost && unit == i) return kNoUnit;
  torn_[unit] = torn_[unit] || lost;
  return unit;
}

std::size_t Units::Join(std::size_t a, std::size_t b, std::size_t end) {
  if (a == b) return a;
  const auto [first, second] = std::minmax(a, b);
  for (std::size_t i = second; i < end; ++i) {
    if (unit_of_[i] == second) unit_of_[i] = first;
  }
  open_[first] += open_[second];
  torn_[first] = true;
  return first;
}

}  // namespace memoryd
