// Units and turns of a conversation (docs/POLICY.md): pure functions over the active messages.
//
// A unit is a message with all results of the calls that it makes, or any other single message. A
// result belongs to the latest message before it, or to itself, that made a call of its id. What
// makes calls of its own and answers others belongs to the unit that it answers. A turn begins at a
// message from the human side.
#ifndef MEMORYD_CORE_POLICY_UNITS_H_
#define MEMORYD_CORE_POLICY_UNITS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/policy/active_view.h"

namespace memoryd {

// Whether a turn begins at the message: it is from the human side and answers no call, as the
// results of Anthropic's API do, which have the role `user`.
bool BeginsTurn(const Message& message);

// Whether the message answers a call of an earlier one.
bool AnswersEarlierCall(const Message& message);

// Where the newest unit begins; 0 for an empty view. Takes as long as that unit has results.
std::size_t NewestUnit(const ActiveView& view);

// Which units the messages of a view form.
class Units {
 public:
  // Of a result whose call is not in the view.
  static constexpr std::size_t kNoUnit = std::numeric_limits<std::size_t>::max();

  // Takes time linear in the view, and memory only where a message makes or answers a call.
  explicit Units(const ActiveView& view);

  // Whether every message is a unit of its own.
  bool plain() const { return unit_of_.empty(); }
  // The index of the message that begins the unit of message `i`, or kNoUnit.
  std::size_t UnitOf(std::size_t i) const { return plain() ? i : unit_of_[i]; }
  bool BeginsUnit(std::size_t i) const { return UnitOf(i) == i; }
  // Of the unit that begins at `i`: whether every call has its result and every result its call.
  bool IsComplete(std::size_t i) const { return plain() || (open_[i] == 0 && !torn_[i]); }
  // Of the unit that begins at `i`: whether one of its results answers a call that is gone, too, or
  // calls of two messages at once.
  bool IsTorn(std::size_t i) const { return !plain() && torn_[i]; }

 private:
  struct Call {
    std::size_t message = 0;
    bool answered = false;
  };
  // By id.
  using Calls = std::unordered_map<std::string_view, Call>;

  // Another message is a unit of its own.
  void AddUnit();
  // The unit of message `i` by the calls that it answers, which `latest_calls` has.
  std::size_t Answer(std::size_t i, const MessageIds& ids, Calls& latest_calls);
  // Results of two units in one message make them one, which no provider accepts. `end` is behind
  // their messages.
  std::size_t Join(std::size_t a, std::size_t b, std::size_t end);

  std::vector<std::size_t> unit_of_;
  std::vector<std::uint32_t> open_;  // Calls of each unit that have no result.
  std::vector<bool> torn_;
};

// How much a unit is, in tokens or bytes.
struct UnitSize {
  std::size_t begin = 0;
  std::int64_t size = 0;
  bool begins_turn = false;
};

struct UnitCut {
  // The first unit that stays, but for the one that keeps_opening is about.
  std::size_t first = 0;
  // Of the units that go.
  std::int64_t size = 0;
  // The message that opens the cut turn stays: the unit that is `opening`.
  bool keeps_opening = false;
  std::size_t opening = 0;
};

// Which of the oldest units go: whole turns until enough(size) of what goes, or until only the
// newest turn is left. Where !fits(size) then, units of that turn go as well, the oldest first,
// until enough(size): but for the message that opens it, and the newest unit.
template <typename Fits, typename Enough>
UnitCut CutOldestUnits(std::span<const UnitSize> units, const Fits& fits, const Enough& enough) {
  UnitCut cut;
  std::int64_t size = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (i > 0 && units[i].begins_turn) {
      cut = {i, size, false, 0};
      if (enough(size)) return cut;
    }
    size += units[i].size;
  }
  if (units.empty() || fits(cut.size)) return cut;
  const std::size_t turn = cut.first;
  const bool opened = units[turn].begins_turn;
  size = cut.size;
  for (std::size_t i = turn; i < units.size(); ++i) {
    if (i > turn + (opened ? 1 : 0)) {
      cut = {i, size, opened, turn};
      if (enough(size)) break;
    }
    if (i > turn || !opened) size += units[i].size;
  }
  return cut;
}

}  // namespace memoryd

#endif  // MEMORYD_CORE_POLICY_UNITS_H_
