// The sessions in memory, at most one copy of each.
#ifndef MEMORYD_CORE_SESSIONS_SESSION_CACHE_H_
#define MEMORYD_CORE_SESSIONS_SESSION_CACHE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/histogram.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/blocks/block.h"
#include "core/model/session.h"
#include "core/sessions/session.h"

namespace memoryd {

// A place for one session's state. The committer that owns the session is the only one to change
// it by a commit; loads replace it whole.
struct CachedSession {
  explicit CachedSession(SessionKey session_key) : key(std::move(session_key)) {}

  // Waits for a load.
  struct Waiter {
    template <typename Function>
    Waiter(Function function,  // NOLINT(google-explicit-constructor)
           std::function<bool()> ended_or_null = nullptr)
        : done(std::move(function)), has_ended(std::move(ended_or_null)) {}

    std::function<void(const absl::Status&)> done;
    // Whether nobody needs the session any more: then it is not loaded for this one, and `done` is
    // not called. Null: it is needed. Called with no lock held.
    std::function<bool()> has_ended;
  };

  const SessionKey key;
  Mutex mutex;
  // False: nothing is known yet, `session` is meaningless.
  bool loaded MEMORYD_GUARDED_BY(mutex) = false;
  Session session MEMORYD_GUARDED_BY(mutex);
  // How often Forget() was called.
  std::uint64_t forgotten MEMORYD_GUARDED_BY(mutex) = 0;
  // Waiting for the load under way, and for one that begins after they came.
  bool loading MEMORYD_GUARDED_BY(mutex) = false;
  std::vector<Waiter> waiting MEMORYD_GUARDED_BY(mutex);
  std::vector<Waiter> waiting_for_next MEMORYD_GUARDED_BY(mutex);
  // Made from `blocks_of`, which is the session's configuration or an older one.
  std::shared_ptr<const BlockSet> blocks MEMORYD_GUARDED_BY(mutex);
  std::shared_ptr<const SessionConfig> blocks_of MEMORYD_GUARDED_BY(mutex);
  // Steps of searches, of which one at a time is run; `searching`: one is queued or runs.
  std::list<std::function<void()>> searches MEMORYD_GUARDED_BY(mutex);
  bool searching MEMORYD_GUARDED_BY(mutex) = false;
  // A commit of it is with the store: what others read there may not be in `session` yet.
  bool committing MEMORYD_GUARDED_BY(mutex) = false;
  // To be called when it no longer is, with no lock held.
  std::vector<std::function<void()>> after_commit MEMORYD_GUARDED_BY(mutex);
  // Writes that are with a committer, and which one: as long as there are any, the next goes there
  // too, so that a session has one owner at a time.
  std::size_t writes MEMORYD_GUARDED_BY(mutex) = 0;
  std::size_t committer MEMORYD_GUARDED_BY(mutex) = 0;
  // Commits lost in a row to other servers; only the owning committer touches it.
  int lost_in_a_row = 0;
  // Owned by the cache's shard.
  MemoryBudget::Hold memory;

  // What was known, or read so far, may be wrong.
  void Forget() MEMORYD_REQUIRES(mutex) {
    loaded = false;
    ++forgotten;
  }
};

// Bounded by bytes, least recently used first, and by the budget, which it is a cache of. A session
// that somebody holds is never evicted, so that there are never two copies that could disagree.
class SessionCache {
 public:
  // `budget` outlives the cache and its sessions.
  SessionCache(std::size_t max_bytes, MemoryBudget* budget);
  ~SessionCache();
  SessionCache(const SessionCache&) = delete;
  SessionCache& operator=(const SessionCache&) = delete;

  // The place of `key`, made when there is none. Any thread.
  std::shared_ptr<CachedSession> Acquire(const SessionKey& key);

  // To be called after the session's size changed, with no lock of a session held. Evicts others
  // when needed. Any thread.
  void Recharge(const std::shared_ptr<CachedSession>& session, std::size_t bytes);

  // Forgets every session that nobody holds and marks the others as not loaded.
  void Clear();

  std::size_t SessionCount();
  std::size_t ByteSize();
  // Sessions evicted for want of room, ever.
  std::uint64_t evictions() const { return evictions_.load(std::memory_order_relaxed); }

 private:
  using Order = std::list<std::shared_ptr<CachedSession>>;  // Most recently used first.
  struct Shard {
    Mutex mutex;
    Order order MEMORYD_GUARDED_BY(mutex);
    std::unordered_map<SessionKey, Order::iterator, SessionKeyHash> index MEMORYD_GUARDED_BY(mutex);
    std::size_t bytes MEMORYD_GUARDED_BY(mutex) = 0;
  };

  Shard& ShardOf(const SessionKey& key);
  // Evicts sessions of `tenant`, null for all, until the shard is down to `max_bytes`, in at most
  // so many steps.
  void Evict(Shard& shard, std::size_t max_bytes, std::size_t steps, const std::string* tenant)
      MEMORYD_REQUIRES(shard.mutex);
  // Evicts at least `bytes` of the tenant's sessions, if so many can be.
  void EvictTenant(const std::string& tenant, std::int64_t bytes);

  const std::size_t max_bytes_per_shard_;
  MemoryBudget& budget_;
  Counter evictions_{0};
  std::array<Shard, 16> shards_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_SESSIONS_SESSION_CACHE_H_
