#include "core/policy/units.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/model/message.h"
#include "core/policy/active_view.h"

namespace memoryd {
namespace {

bool Contains(const std::vector<std::string>& ids, const std::string& id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

struct Call {
  std::size_t message = 0;
  bool answered = false;
};

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
  std::unordered_map<std::string_view, Call> latest_call;
  for (std::size_t i = 0; i < view.size(); ++i) {
    const Message& message = view.at(i);
    const MessageIds& ids = *message.ids;
    if (ids.calls.empty() && ids.results.empty()) {
      if (!plain()) {
        unit_of_.push_back(i);
        open_.push_back(0);
        torn_.push_back(false);
      }
      continue;
    }
    for (std::size_t before = unit_of_.size(); before <= i; ++before) {
      unit_of_.push_back(before);
      open_.push_back(0);
      torn_.push_back(false);
    }
    std::size_t unit = i;
    bool lost = false;
    for (const std::string& id : ids.results) {
      if (Contains(ids.calls, id)) continue;
      const auto call = latest_call.find(id);
      if (call == latest_call.end()) {
        lost = true;
        continue;
      }
      const std::size_t of_call = unit_of_[call->second.message];
      if (!call->second.answered) --open_[of_call];
      call->second.answered = true;
      if (unit == i || unit == of_call) {
        unit = of_call;
        continue;
      }
      // Results of two units in one message make them one, which no provider accepts.
      const std::size_t first = std::min(unit, of_call);
      const std::size_t second = std::max(unit, of_call);
      for (std::size_t j = second; j < i; ++j) {
        if (unit_of_[j] == second) unit_of_[j] = first;
      }
      open_[first] += open_[second];
      torn_[first] = true;
      unit = first;
    }
    if (lost && unit == i) {
      unit_of_[i] = kNoUnit;
      continue;
    }
    unit_of_[i] = unit;
    torn_[unit] = torn_[unit] || lost;
    for (const std::string& id : ids.calls) {
      const bool answered = Contains(ids.results, id);
      if (!answered) ++open_[unit];
      latest_call[id] = {i, answered};
    }
  }
}

}  // namespace memoryd
