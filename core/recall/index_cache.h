// The indexes of the sessions searched lately.
#ifndef MEMORYD_CORE_RECALL_INDEX_CACHE_H_
#define MEMORYD_CORE_RECALL_INDEX_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "core/base/histogram.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/model/body_reader.h"
#include "core/model/session.h"
#include "core/recall/searched_session.h"
#include "core/storage/store.h"

namespace memoryd {

// At most so many bytes of indexes; the least recently used go first. A cache of the budget's. Any
// thread.
class IndexCache {
 public:
  // Whoever holds it may use it, evicted or not.
  using Index = std::shared_ptr<SearchedSession>;

  // Store, bodies and budget must outlive it.
  IndexCache(Store* store, const BodyReader* bodies, std::size_t max_bytes, MemoryBudget* budget);
  ~IndexCache();
  IndexCache(const IndexCache&) = delete;
  IndexCache& operator=(const IndexCache&) = delete;

  // The session's index, kept from before or empty.
  Index Open(const SessionKey& key) MEMORYD_EXCLUDES(mutex_);

  // Counts what the index takes now. One that has no room by itself goes, rather than all others.
  void Recharge(const Index& index) MEMORYD_EXCLUDES(mutex_);

  // Drops what is kept of a session that is no more.
  void Forget(const SessionKey& key) MEMORYD_EXCLUDES(mutex_);

  std::size_t ByteSize() MEMORYD_EXCLUDES(mutex_);
  // Indexes dropped for want of room, ever.
  std::uint64_t evictions() const { return evictions_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    Index index;
    std::size_t charged_bytes = 0;
  };
  using Order = std::list<Entry>;  // Most recently used first.

  void Drop(Order::iterator place) MEMORYD_REQUIRES(mutex_);
  void Evict(Order::iterator place) MEMORYD_REQUIRES(mutex_);
  // Drops at least `bytes` of the tenant's indexes that are not in use, if there are so many.
  void EvictTenant(const std::string& tenant, std::int64_t bytes) MEMORYD_EXCLUDES(mutex_);

  Store* const store_;
  const BodyReader* const bodies_;
  const std::size_t max_bytes_;
  MemoryBudget* const budget_;
  Mutex mutex_;
  Order order_ MEMORYD_GUARDED_BY(mutex_);
  std::unordered_map<SessionKey, Order::iterator, SessionKeyHash> entries_
      MEMORYD_GUARDED_BY(mutex_);
  std::size_t bytes_ MEMORYD_GUARDED_BY(mutex_) = 0;
  Counter evictions_{0};
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RECALL_INDEX_CACHE_H_
