#include "core/sessions/oldest_messages.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/policy/active_view.h"
#include "core/policy/units.h"

namespace memoryd {
namespace {

std::int64_t Bytes(const Message& message) {
  return static_cast<std::int64_t>(message.body.size());
}

// Where the newest turn begins; view.size() where it began before.
std::size_t LastTurn(const ActiveView& view) {
  for (std::size_t i = view.size(); i > 0; --i) {
    if (BeginsTurn(view.at(i - 1))) return i - 1;
  }
  return view.size();
}

// Behind the results that follow those before `end`.
std::size_t EndOfUnit(const ActiveView& view, std::size_t end) {
  while (end > 0 && end < view.size() && AnswersEarlierCall(view.at(end))) ++end;
  return end;
}

// By how much a session is above what its retention keeps.
struct Surplus {
  std::int64_t messages = 0;
  std::int64_t bytes = 0;

  bool any() const { return messages > 0 || bytes > 0; }
};

Surplus SurplusOf(const Retention& retention, const SessionRow& row, std::int64_t active) {
  Surplus surplus;
  if (retention.keep_messages > 0) {
    const std::int64_t stored = row.active_count + row.archived_count;
    surplus.messages =
        std::clamp<std::int64_t>(stored - retention.keep_messages, 0, row.archived_count + active);
  }
  if (retention.keep_bytes > 0) {
    surplus.bytes = std::max<std::int64_t>(0, row.message_bytes - retention.keep_bytes);
  }
  return surplus;
}

// All `count` archived messages go where they have no more `bytes` than the surplus. Where they
// have more, how many of them go is not known.
void SpendArchivedBytes(std::int64_t count, std::int64_t bytes, Surplus& surplus,
                        LeavingMessages& leaving) {
  if (surplus.bytes >= bytes) {
    surplus.messages = std::max(surplus.messages, count);
    surplus.bytes -= bytes;
  } else {
    leaving.held = true;
  }
}

// Decides how many of `count` archived messages go, at most `surplus`.
void LeaveArchived(const SessionRow& row, std::int64_t count, std::int64_t surplus,
                   std::int64_t keep_from, LeavingMessages& leaving) {
  const std::int64_t first = FirstUnpinned(row);
  // The opening message among them is passed over.
  const bool among = leaving.keeps_opening && row.opening >= first;
  const auto floor_behind = [&](std::int64_t going) {
    return first + going + (among && row.opening < first + going ? 1 : 0);
  };
  // Where a message was taken out by itself, positions don't tell how many there are.
  const bool dense = row.watermark - first == count + (among ? 1 : 0);
  std::int64_t going = std::min(surplus, count);
  std::int64_t floor = going == count ? row.watermark : floor_behind(going);
  if (going > 0 && going < count && !dense) {
    going = 0;
    leaving.held = true;
  } else if (going > 0 && floor > keep_from) {
    going = dense ? std::clamp<std::int64_t>(keep_from - first - (among ? 1 : 0), 0, going) : 0;
    floor = floor_behind(going);
    leaving.held = true;
  }
  if (going > 0) leaving.floor = floor;
  leaving.archived = going;
}

// How many active messages are too old, with what follows of their units.
std::size_t TooOld(const Retention& retention, const ActiveView& view, std::int64_t now_us) {
  if (retention.message_ttl_us <= 0) return 0;
  std::size_t old = 0;
  while (old < view.size() && view.at(old).ingest_us + retention.message_ttl_us <= now_us) ++old;
  return EndOfUnit(view, old);
}

// How many active messages are too many, or too large. The one at `turn` does not count.
std::size_t TooMany(const ActiveView& view, Surplus surplus, std::size_t turn) {
  auto many = static_cast<std::size_t>(surplus.messages);
  if (turn < many) ++many;
  std::size_t large = 0;
  while (surplus.bytes > 0 && large + 1 < view.size()) {
    if (large != turn) surplus.bytes -= Bytes(view.at(large));
    ++large;
  }
  return std::min(EndOfUnit(view, std::max(many, large)), NewestUnit(view));
}

// Decides how many active messages go. keep_messages and keep_bytes spare the one at `turn`.
void LeaveActive(const ActiveView& view, std::size_t old, std::size_t many, std::size_t turn,
                 std::int64_t keep_from, LeavingMessages& leaving) {
  std::size_t going = std::max(many, old);
  while (going > 0 && view.at(going - 1).position >= keep_from) {
    --going;
    leaving.held = true;
  }
  while (going > 0 && going < view.size() && AnswersEarlierCall(view.at(going))) --going;
  if (turn < going && turn >= old) {
    // The message that opens the turn goes never alone.
    if (turn + 1 == going) {
      going = turn;
    } else {
      leaving.opening = turn;
    }
  }
  if (going > 0) leaving.floor = view.at(going - 1).position + 1;
  leaving.active = going;
}

}  // namespace

std::int64_t ActiveBytes(std::span<const MessagePtr> pinned, const ActiveView& view) {
  std::int64_t bytes = 0;
  for (const MessagePtr& message : pinned) bytes += Bytes(*message);
  for (std::size_t i = 0; i < view.size(); ++i) bytes += Bytes(view.at(i));
  return bytes;
}

std::int64_t FirstUnpinned(const SessionRow& row) {
  return row.pinned.empty() ? row.floor : std::max(row.floor, row.pinned.back() + 1);
}

std::int64_t ArchivedButOpening(const SessionRow& row) {
  return std::max<std::int64_t>(0, row.archived_count - (row.opening > 0 ? 1 : 0));
}

bool TurnGoesOn(const ActiveView& view) { return LastTurn(view) == view.size(); }

LeavingMessages OldestToLeave(const Retention& retention, const SessionRow& row,
                              std::span<const MessagePtr> pinned, const Message* opening,
                              const ActiveView& view, bool spare_opening, std::int64_t now_us,
                              std::int64_t keep_from) {
  LeavingMessages leaving;
  Surplus surplus = SurplusOf(retention, row, static_cast<std::int64_t>(view.size()));
  leaving.keeps_opening =
      row.opening > 0 && (row.opening < FirstUnpinned(row) || (surplus.any() && TurnGoesOn(view)));
  const std::int64_t archived = row.archived_count - (leaving.keeps_opening ? 1 : 0);
  if (archived > 0) {
    if (surplus.bytes > 0) {
      std::int64_t bytes = row.message_bytes - ActiveBytes(pinned, view);
      if (leaving.keeps_opening && opening != nullptr) bytes -= Bytes(*opening);
      SpendArchivedBytes(archived, std::max<std::int64_t>(0, bytes), surplus, leaving);
    }
    LeaveArchived(row, archived, surplus.messages, keep_from, leaving);
    if (leaving.archived < archived) return leaving;
  }
  surplus.messages = std::max<std::int64_t>(0, surplus.messages - leaving.archived);
  const std::size_t old = TooOld(retention, view, now_us);
  std::size_t many = 0;
  std::size_t turn = view.size();
  if (surplus.any()) {
    if (spare_opening) turn = LastTurn(view);
    many = TooMany(view, surplus, turn);
  }
  LeaveActive(view, old, many, turn, keep_from, leaving);
  return leaving;
}

}  // namespace memoryd
