// A session in memory: its row, its configuration and its active messages.
#ifndef MEMORYD_CORE_SESSIONS_SESSION_H_
#define MEMORYD_CORE_SESSIONS_SESSION_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/sessions/recent_requests.h"
#include "core/storage/store.h"

namespace memoryd {

struct Session {
  // Revision 0: no row. A tombstone keeps its row, so that revisions go on rising.
  SessionRow row;
  std::shared_ptr<const SessionConfig> config;  // Never null; the defaults when !exists().
  std::vector<MessagePtr> pinned;               // Oldest first.
  MessagePtr opening;                           // At row.opening; null where there is none.
  std::deque<MessagePtr> active;                // From the watermark on, oldest first.
  std::map<std::string, std::shared_ptr<const BlockState>> blocks;  // By name.
  RecentRequests recent_requests;

  // False where the active messages are more than may be held at once: `pinned`, `opening` and
  // `active` are empty then, whatever the row counts.
  bool whole = true;
  // Bytes of the active messages by ActiveSize(), whether they are held here or not.
  std::int64_t active_bytes = 0;

  // Approximate memory taken by the messages, block states and replies above.
  std::size_t content_bytes = 0;

  bool exists() const { return row.revision > 0 && !row.deleted; }

  // A session without a row.
  static Session Absent();
  // DATA_LOSS when the stored configuration can't be read.
  static absl::StatusOr<Session> FromStore(LoadedSession loaded);

  // With the configuration twice: as it is stored, and as it is used.
  std::size_t ByteSize() const { return content_bytes + 2 * row.config.size(); }
};

// Whether the time of one of the session's active messages is over by `now_us`, though the sweeper
// has not taken it out yet; and the session without them.
bool HasExpired(const Session& session, std::int64_t now_us);
void HideExpired(Session& session, std::int64_t now_us);

// What a session holds.
struct SessionCounts {
  std::int64_t sessions = 0;  // 1 when it exists.
  std::int64_t messages = 0;  // Active and archived.
  std::int64_t contents = 0;
  std::int64_t blocks = 0;   // That know something.
  std::int64_t entries = 0;  // Of vector blocks.
  std::int64_t jobs = 0;     // That were made for its blocks, open and ended.

  SessionCounts& operator+=(const SessionCounts& other);
  friend bool operator==(const SessionCounts&, const SessionCounts&) = default;
};
SessionCounts CountsOf(const Session& session);
SessionCounts CountsOf(const SessionRow& row, const std::vector<BlockState>& blocks);

// Approximate memory that a cached state takes.
std::size_t ByteSize(const BlockState& state);

}  // namespace memoryd

#endif  // MEMORYD_CORE_SESSIONS_SESSION_H_
