// Finds what a session holds, by an index that is kept up to the session as it grows.
#ifndef MEMORYD_CORE_ENGINE_SESSION_SEARCH_H_
#define MEMORYD_CORE_ENGINE_SESSION_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/model/body_reader.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/retrieval/session_index.h"
#include "core/storage/store.h"

namespace memoryd {

// A message or a content, whichever is set.
struct FoundItem {
  double score = 0;
  MessagePtr message;
  ContentPtr content;
  std::vector<MessagePtr> neighbours;  // Of `message`, oldest first.
};

struct Found {
  std::vector<FoundItem> items;
  // The session as it was found; at least as new as it was asked for.
  SessionRow row;
};

// Indexes of the sessions searched lately, in memory. A search reads from the store what came since
// the last one, so its cost does not grow with the session but for the first, and for one after a
// Reset.
//
// Any thread; calls block on the store, and those for one session wait for each other.
class SessionSearch {
 private:
  struct Entry;

 public:
  // A session's index. Whoever holds it may use it, evicted or not.
  using Index = std::shared_ptr<Entry>;

  // Both must outlive it. At most `max_bytes` of indexes are kept, the least recently used go
  // first.
  SessionSearch(Store* store, const BodyReader* bodies, std::size_t max_bytes);

  // The session's index, kept from before or empty.
  Index Open(const SessionKey& key) MEMORYD_EXCLUDES(mutex_);

  // Takes a step towards the session that `row` describes: true when the index is there, false when
  // another step is due. A step reads some 10,000 rows, so that a large session does not hold up
  // others. ABORTED when a Set or Reset has cut the session since `row` was read, or since the
  // index was last brought up: read it again and begin anew. With `accept_missing` what is gone is
  // left out instead.
  absl::StatusOr<bool> CatchUp(const Index& index, const SessionRow& row, bool accept_missing);

  // Searches an index that has caught up. `neighbours` is how many messages around each message
  // found come with it; each message stands only once in the result. ABORTED as above;
  // FAILED_PRECONDITION `REPLY_TOO_LARGE` when what was found exceeds kMaxReplyBytes.
  absl::StatusOr<Found> Find(const Index& index, const SearchRequest& request,
                             std::size_t neighbours, bool accept_missing);

  // Drops what is kept of a session that is no more.
  void Forget(const SessionKey& key) MEMORYD_EXCLUDES(mutex_);

  // Drops about half of what is kept, the least recently used first.
  void Shrink() MEMORYD_EXCLUDES(mutex_);

  std::size_t ByteSize() MEMORYD_EXCLUDES(mutex_);

 private:
  struct Entry {
    explicit Entry(SessionKey session_key) : key(std::move(session_key)) {}

    const SessionKey key;
    Mutex mutex;
    SessionIndex index MEMORYD_GUARDED_BY(mutex);
    // What the index is of, or is on the way to.
    SessionRow row MEMORYD_GUARDED_BY(mutex);
    bool complete MEMORYD_GUARDED_BY(mutex) = false;
    // Not to be gone on with: rows were missing.
    bool spoilt MEMORYD_GUARDED_BY(mutex) = true;
    std::int64_t messages MEMORYD_GUARDED_BY(mutex) = 0;
    std::int64_t contents MEMORYD_GUARDED_BY(mutex) = 0;
    std::size_t charged_bytes = 0;  // Guarded by SessionSearch::mutex_.
  };
  using Order = std::list<std::shared_ptr<Entry>>;  // Most recently used first.

  void Recharge(const std::shared_ptr<Entry>& entry, std::size_t bytes) MEMORYD_EXCLUDES(mutex_);
  void Drop(Order::iterator place) MEMORYD_REQUIRES(mutex_);
  absl::StatusOr<bool> Step(Entry& entry, const SessionRow& row, bool accept_missing)
      MEMORYD_REQUIRES(entry.mutex);
  // Adds what is missing up to entry.row, at most some rows; true when nothing is left.
  absl::StatusOr<bool> AddMissing(Entry& entry) MEMORYD_REQUIRES(entry.mutex);
  absl::Status AddRange(Entry& entry, ItemKind kind, std::uint64_t generation, PositionRange range,
                        std::int64_t& rows_left) MEMORYD_REQUIRES(entry.mutex);
  void Add(Entry& entry, ItemKind kind, const Message& row) MEMORYD_REQUIRES(entry.mutex);

  Store& store_;
  const BodyReader& bodies_;
  const std::size_t max_bytes_;
  Mutex mutex_;
  Order order_ MEMORYD_GUARDED_BY(mutex_);
  std::unordered_map<SessionKey, Order::iterator, SessionKeyHash> entries_
      MEMORYD_GUARDED_BY(mutex_);
  std::size_t bytes_ MEMORYD_GUARDED_BY(mutex_) = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_ENGINE_SESSION_SEARCH_H_
