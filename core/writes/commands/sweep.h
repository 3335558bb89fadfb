// Commands by which a session loses what is too old or too much.
#ifndef MEMORYD_CORE_WRITES_COMMANDS_SWEEP_H_
#define MEMORYD_CORE_WRITES_COMMANDS_SWEEP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/blocks/entry_log.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/sessions/oldest_messages.h"
#include "core/storage/store.h"
#include "core/writes/command_traits.h"

namespace memoryd {

// Items whose own time is over that go with one write, about.
inline constexpr std::size_t kExpiredAtOnce = 500;

// What the sweeper has found a session to be whose time has come.
struct SweepRequest {
  // Of the session as it was listed.
  std::uint64_t generation = 0;
  std::int64_t revision = 0;
  std::int64_t floor = 0;
  std::vector<std::int64_t> pinned;
  std::int64_t opening = 0;
  // Where that stands below the floor; 0: not known.
  std::int64_t opening_ingest_us = 0;
  std::int64_t expire_us = 0;
  // The archived messages that go, and the bytes of their bodies.
  LeavingMessages leaving;
  std::int64_t archived_bytes = 0;
  // Where what open jobs have still to feed begins.
  std::int64_t keep_from = kNothingToFeed;
  // There are more that go, or else when the first that stays was accepted; 0: nobody asks.
  bool more = false;
  std::int64_t next_ingest_us = 0;
  // Of a session with times of items: messages and contents whose time is over, ascending, and the
  // first time of the others; 0: none has one. Active messages, pinned ones too, only where the
  // session may not be held whole.
  std::vector<MessagePtr> expired_messages;
  std::vector<ContentPtr> expired_contents;
  std::int64_t next_expire_us = 0;
  // Of the session as it was listed, if it was looked at: what came behind since was not.
  std::int64_t watermark = 0;
  std::int64_t next_content = 0;
  // Before so long the session is not looked through for such items again.
  std::int64_t pause_us = 0;
};

// The oldest active messages of a session that can't be held whole, but for the pinned.
struct OldestActive {
  // Of the session as they were read.
  std::uint64_t generation = 0;
  std::int64_t revision = 0;
  std::vector<MessagePtr> messages;
};
// As many as are read at once, about.
inline constexpr std::int64_t kOldestBytes = std::int64_t{8} << 20;
inline constexpr std::int64_t kOldestRows = 10'000;

// What the sweeper has found of a block's entries that hold what is not to be said any more.
struct EntryRemoval {
  std::string block;
  // Of the session and its block as they were looked at.
  std::uint64_t message_generation = 0;
  std::uint64_t entry_generation = 0;
  EntryLog log;
  // The entries that go, and how many there are.
  std::vector<NumberRange> numbers;
  std::int64_t count = 0;
  // Messages to be fed once more: of entries that go because of some of their messages.
  std::vector<PositionRange> feed_again;
  // There are more that go.
  bool more = false;
  // Of a block with `ttl`: its next entry, and when the oldest message came of those that stay; 0:
  // none stays.
  bool by_age = false;
  std::int64_t next_entry = 0;
  std::int64_t oldest_us = 0;
  // Before so long the block is not looked at again.
  std::int64_t pause_us = 0;
};

namespace commands {

// The session goes if it has expired, else messages that its retention does not keep.
struct Sweep {
  static constexpr CommandTraits kTraits{.renews = CommandTraits::Renews::kNothing,
                                         .is_sweep = true};

  SweepRequest due;
  // Of a session that may not be held whole.
  std::optional<OldestActive> oldest;
};

// Nothing is done where others have taken out entries of the block since.
struct TakeOutEntries {
  static constexpr CommandTraits kTraits{.renews = CommandTraits::Renews::kNothing,
                                         .is_sweep = true};

  EntryRemoval removal;
};

// Makes room for a Put, which was admitted itself.
struct ArchiveOldest {
  static constexpr CommandTraits kTraits{.is_forced = true};

  OldestActive oldest;
};

}  // namespace commands
}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_COMMANDS_SWEEP_H_
