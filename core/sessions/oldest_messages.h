// Which messages go by a session's retention: pure functions over its row and its active messages.
#ifndef MEMORYD_CORE_SESSIONS_OLDEST_MESSAGES_H_
#define MEMORYD_CORE_SESSIONS_OLDEST_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/policy/policy.h"

namespace memoryd {

inline constexpr std::int64_t kNothingToFeed = std::numeric_limits<std::int64_t>::max();

// The oldest messages, archived ones before active ones, pinned ones never.
struct LeavingMessages {
  std::int64_t archived = 0;
  std::size_t active = 0;
  // The archived message at SessionRow::opening stays, though those around it go.
  bool keeps_opening = false;
  // Of the active ones that leave: the one that stays as such, an index of the view.
  std::optional<std::size_t> opening;
  // The session's floor without them; 0: nothing goes.
  std::int64_t floor = 0;
  // More is to go, but is still to be fed to a block, or what it is can't be told without a look at
  // the store.
  bool held = false;
};

// Of the bodies of both.
std::int64_t ActiveBytes(std::span<const MessagePtr> pinned, const ActiveView& view);

// The position of the first message that is stored and not pinned, should it be there.
std::int64_t FirstUnpinned(const SessionRow& row);

// Archived messages but for the opening one.
std::int64_t ArchivedButOpening(const SessionRow& row);

// Whether the newest turn began before the view.
bool TurnGoesOn(const ActiveView& view);

// What goes at `now_us`. `pinned`, `opening` (null: not known) and `view` are of the session that
// `row` describes. Nothing goes from position `keep_from` on. How old archived messages are, and
// how large each is, it does not know.
//
// Active messages go with what follows of their units. keep_messages and keep_bytes spare the
// newest unit and, with `spare_opening`, the message that opens the newest turn.
LeavingMessages OldestToLeave(const Retention& retention, const SessionRow& row,
                              std::span<const MessagePtr> pinned, const Message* opening,
                              const ActiveView& view, bool spare_opening, std::int64_t now_us,
                              std::int64_t keep_from);

}  // namespace memoryd

#endif  // MEMORYD_CORE_SESSIONS_OLDEST_MESSAGES_H_
