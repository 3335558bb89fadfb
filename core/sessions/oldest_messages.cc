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
  const auto active = static_cast<std::int64_t>(view.size());
  std::int64_t surplus = 0;
  if (retention.keep_messages > 0) {
    const std::int64_t stored = row.active_count + row.archived_count;
    surplus =
        std::clamp<std::int64_t>(stored - retention.keep_messages, 0, row.archived_count + active);
  }
  std::int64_t surplus_bytes =
      retention.keep_bytes == 0
          ? 0
          : std::max<std::int64_t>(0, row.message_bytes - retention.keep_bytes);
  const std::int64_t first = FirstUnpinned(row);
  leaving.keeps_opening =
      row.opening > 0 && (row.opening < first || (surplus + surplus_bytes > 0 && TurnGoesOn(view)));
  const std::int64_t archived_count = row.archived_count - (leaving.keeps_opening ? 1 : 0);
  if (archived_count > 0) {
    if (surplus_bytes > 0) {
      std::int64_t archived = row.message_bytes - ActiveBytes(pinned, view);
      if (leaving.keeps_opening && opening != nullptr) archived -= Bytes(*opening);
      archived = std::max<std::int64_t>(0, archived);
      if (surplus_bytes >= archived) {
        surplus = std::max(surplus, archived_count);
        surplus_bytes -= archived;
      } else {
        leaving.held = true;
      }
    }
    // The opening message among them is passed over.
    const bool among = leaving.keeps_opening && row.opening >= first;
    const auto floor_behind = [&](std::int64_t count) {
      return first + count + (among && row.opening < first + count ? 1 : 0);
    };
    // Where a message was taken out by itself, positions don't tell how many there are.
    const bool dense = row.watermark - first == archived_count + (among ? 1 : 0);
    std::int64_t going = std::min(surplus, archived_count);
    std::int64_t floor = going == archived_count ? row.watermark : floor_behind(going);
    if (going > 0 && going < archived_count && !dense) {
      going = 0;
      leaving.held = true;
    } else if (going > 0 && floor > keep_from) {
      going = dense ? std::clamp<std::int64_t>(keep_from - first - (among ? 1 : 0), 0, going) : 0;
      floor = floor_behind(going);
      leaving.held = true;
    }
    if (going > 0) leaving.floor = floor;
    leaving.archived = going;
    if (going < archived_count) return leaving;
  }
  std::size_t due = 0;
  if (retention.message_ttl_us > 0) {
    while (due < view.size() && view.at(due).ingest_us + retention.message_ttl_us <= now_us) ++due;
  }
  due = EndOfUnit(view, due);
  auto going = static_cast<std::size_t>(std::max<std::int64_t>(0, surplus - leaving.archived));
  std::size_t turn = view.size();
  if (going > 0 || surplus_bytes > 0) {
    if (spare_opening) turn = LastTurn(view);
    if (turn < going) ++going;
    std::size_t too_large = 0;
    while (surplus_bytes > 0 && too_large + 1 < view.size()) {
      if (too_large != turn) surplus_bytes -= Bytes(view.at(too_large));
      ++too_large;
    }
    going = std::min(EndOfUnit(view, std::max(going, too_large)), NewestUnit(view));
  }
  going = std::max(going, due);
  while (going > 0 && view.at(going - 1).position >= keep_from) {
    --going;
    leaving.held = true;
  }
  while (going > 0 && going < view.size() && AnswersEarlierCall(view.at(going))) --going;
  if (turn < going && turn >= due) {
    // The message that opens the turn goes never alone.
    if (turn + 1 == going) {
      going = turn;
    } else {
      leaving.opening = turn;
    }
  }
  if (going > 0) leaving.floor = view.at(going - 1).position + 1;
  leaving.active = going;
  return leaving;
}

}  // namespace memoryd
