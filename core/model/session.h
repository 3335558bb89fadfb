// A session's key and its row.
#ifndef MEMORYD_CORE_MODEL_SESSION_H_
#define MEMORYD_CORE_MODEL_SESSION_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/shared_string.h"

namespace memoryd {

// Every stored row belongs to one key; order is bytewise.
struct SessionKey {
  std::string tenant;
  std::string session;

  friend auto operator<=>(const SessionKey&, const SessionKey&) = default;
};

struct SessionKeyHash {
  std::size_t operator()(const SessionKey& key) const {
    const std::size_t tenant = std::hash<std::string>()(key.tenant);
    return std::hash<std::string>()(key.session) ^ (tenant * 0x9E3779B97F4A7C15ULL);
  }
};

// The session's own row: small and hot, one conditional write per commit.
//
// Active messages are the pinned positions and those from `watermark` on. Stored messages are the
// pinned positions, `opening` and those from `floor` on; below it rows wait for the sweeper.
// Contents are what is stored of `content_generation`.
struct SessionRow {
  // Part of the key of every dependent row. Random; a new one makes all older rows unreachable.
  std::uint64_t generation = 0;
  // Rises by at least one with every commit, over deletion too.
  std::int64_t revision = 0;
  // Position of the next message; the first is 1. Never falls while the session exists.
  std::int64_t next_position = 1;
  std::int64_t floor = 1;
  std::int64_t watermark = 1;
  // Ascending, at most kMaxPinned; no other row lies between them.
  std::vector<std::int64_t> pinned;
  // The archived message that opens the turn in which the active ones begin; 0: none. It stays
  // where that turn is cut, so that a Get begins with it. Servers of schema 9 and before leave it
  // as it is: what has no row of `generation` any more is none.
  std::int64_t opening = 0;
  std::int64_t active_count = 0;  // Includes the pinned.
  std::int64_t archived_count = 0;
  std::int64_t active_tokens = 0;  // Includes the pinned.
  // 0 while the session has no contents. A new one makes all older contents unreachable, as
  // `generation` does for messages.
  std::uint64_t content_generation = 0;
  // Position of the next content; the first is 1. Never falls while the session exists.
  std::int64_t next_content = 1;
  std::int64_t content_count = 0;
  // Of the bodies that are counted above. Rows from before the columns count what came since. Above
  // 0 in a tombstone: messages are stored under its generation that were never published.
  std::int64_t message_bytes = 0;
  std::int64_t content_bytes = 0;
  // The revision by which a message or content of these generations was last changed or taken out
  // by itself; 0: none was. What was read of them before may be out of date.
  std::int64_t edit_revision = 0;
  // Of what blocks know and of their jobs; 0 while there is none. A new one makes all older ones
  // unreachable.
  std::uint64_t block_generation = 0;
  std::int64_t create_us = 0;  // Microseconds since the epoch.
  std::int64_t update_us = 0;
  // When the sweeper deletes the session, unless it is written or touched until then; 0: never.
  std::int64_t expire_us = 0;
  // When the sweeper looks for messages and contents that go; 0: never. Even: stores keep the last
  // bit for servers of schema 11 and before, see core/storage/before_schema_12.h.
  std::int64_t drop_us = 0;
  // Whether messages or contents may have a time of their own, see MessageIds::expire_us. Where
  // none has, nobody looks for it. Only beside a `drop_us`.
  bool has_timed_items = false;
  // A tombstone: deleted, kept without content for 24 hours.
  bool deleted = false;
  // Random; tells a writer whose reply was lost whether the stored row is its own.
  std::uint64_t commit_tag = 0;
  // The configuration, see session_config.h. Opaque to stores.
  SharedString config;
  // Of the configuration, so that stores find sessions by it; empty: none. A tombstone keeps that
  // of its session, whose replies are still kept, until they are forgotten.
  std::string subject;

  friend bool operator==(const SessionRow&, const SessionRow&) = default;
};

inline constexpr std::size_t kMaxPinned = 8;

// Whether `after` differs from `before` in nothing but what messages change that are put behind the
// others: revision, next_position, active_count, active_tokens, message_bytes, update_us and
// commit_tag. So do most commits.
bool IsAppend(const SessionRow& before, const SessionRow& after);

// What an active message counts besides its body, for what it takes in memory.
inline constexpr std::int64_t kActiveMessageBytes = 256;
// The most that the active messages of a session may have, as far as its row tells: the bytes of a
// row are those of archived messages too.
inline std::int64_t MostActiveBytes(const SessionRow& row) {
  return row.message_bytes + row.active_count * kActiveMessageBytes;
}

}  // namespace memoryd

#endif  // MEMORYD_CORE_MODEL_SESSION_H_
