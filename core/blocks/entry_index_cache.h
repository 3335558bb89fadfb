// The entries of blocks that were searched lately, in memory.
#ifndef MEMORYD_CORE_BLOCKS_ENTRY_INDEX_CACHE_H_
#define MEMORYD_CORE_BLOCKS_ENTRY_INDEX_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/blocks/entry_search.h"
#include "core/model/message.h"

namespace memoryd {

// A search reads from the store what came since the last one of the same entries, so that its cost
// does not grow with them but for the scan, and for the first one; what was taken out meanwhile the
// block's log says. The scan is exact: every vector,
// one behind the other in memory, sums in double precision.
//
// Any thread; calls for the same entries wait for each other.
class EntryIndexCache final : public EntrySearch {
 public:
  // Rows of `generation` at positions [begin, end), ascending, at most `max_rows` and, but for the
  // first, `max_bytes` of bodies; as Store::ReadRange.
  using ReadRange = std::function<absl::StatusOr<std::vector<MessagePtr>>(
      const SessionKey& key, std::uint64_t generation, std::int64_t begin, std::int64_t end,
      std::int64_t max_rows, std::int64_t max_bytes)>;

  // At most `max_bytes` of entries are kept between searches, the least recently used go first, and
  // they are a cache of the budget's, which must outlive this.
  EntryIndexCache(ReadRange read_range, std::size_t max_bytes, MemoryBudget* budget);
  ~EntryIndexCache() override;
  EntryIndexCache(const EntryIndexCache&) = delete;
  EntryIndexCache& operator=(const EntryIndexCache&) = delete;

  // RESOURCE_EXHAUSTED `MEMORY_SHORT` when the budget has no room for the entries.
  absl::StatusOr<std::vector<EntryHit>> Nearest(const EntryQuery& query) override
      MEMORYD_EXCLUDES(mutex_);

  // Drops what is kept of a session that is no more.
  void Forget(const SessionKey& session) MEMORYD_EXCLUDES(mutex_);

  std::size_t ByteSize() MEMORYD_EXCLUDES(mutex_);

 private:
  using Key = std::pair<SessionKey, std::uint64_t>;
  struct Item {
    std::int64_t position = 0;
    std::size_t offset = 0;  // In `numbers`.
    std::size_t size = 0;
    double norm = 0;
    std::int64_t ingest_us = 0;
    std::int64_t expire_us = 0;
    std::shared_ptr<const VectorEntry> entry;
    nlohmann::json metadata;
  };
  struct Index {
    Index(Key index_key, MemoryBudget& budget)
        : key(std::move(index_key)),
          memory(budget.Count(key.first.tenant, MemoryUse::kVectors, 0)) {}

    const Key key;
    Mutex mutex;
    std::int64_t next_entry MEMORYD_GUARDED_BY(mutex) = 1;  // The first that has not been read.
    // How many removals of the block's log what was read is without; -1: nothing was read.
    std::int64_t removals MEMORYD_GUARDED_BY(mutex) = -1;
    std::uint64_t log_id MEMORYD_GUARDED_BY(mutex) = 0;
    std::vector<float> numbers MEMORYD_GUARDED_BY(mutex);
    std::vector<Item> items MEMORYD_GUARDED_BY(mutex);  // By position.
    std::size_t text_bytes MEMORYD_GUARDED_BY(mutex) = 0;
    MemoryBudget::Hold memory MEMORYD_GUARDED_BY(mutex);
    std::size_t charged_bytes = 0;  // Guarded by EntryIndexCache::mutex_.
  };
  using Order = std::list<std::shared_ptr<Index>>;  // Most recently used first.

  std::shared_ptr<Index> Open(const Key& key) MEMORYD_EXCLUDES(mutex_);
  absl::Status CatchUp(Index& index, const EntryQuery& query) MEMORYD_REQUIRES(index.mutex);
  // Entries that are not stored any more go.
  static void TakeOut(Index& index, const EntryLog& log) MEMORYD_REQUIRES(index.mutex);
  static void Add(Index& index, const Message& row) MEMORYD_REQUIRES(index.mutex);
  static absl::StatusOr<std::vector<EntryHit>> Scan(const Index& index, const EntryQuery& query)
      MEMORYD_REQUIRES(index.mutex);
  static std::size_t ByteSizeOf(const Index& index) MEMORYD_REQUIRES(index.mutex);
  // Has the budget count what the index takes. An index that it has no room for is emptied.
  static absl::Status Charge(Index& index) MEMORYD_REQUIRES(index.mutex);
  void Recharge(const std::shared_ptr<Index>& index, std::size_t bytes) MEMORYD_EXCLUDES(mutex_);
  // Drops at least `bytes` of the tenant's indexes that are not in use, if there are so many.
  void EvictTenant(const std::string& tenant, std::int64_t bytes) MEMORYD_EXCLUDES(mutex_);
  void Drop(Order::iterator place) MEMORYD_REQUIRES(mutex_);

  const ReadRange read_range_;
  const std::size_t max_bytes_;
  MemoryBudget& budget_;
  Mutex mutex_;
  Order order_ MEMORYD_GUARDED_BY(mutex_);
  std::map<Key, Order::iterator> indexes_ MEMORYD_GUARDED_BY(mutex_);
  std::size_t bytes_ MEMORYD_GUARDED_BY(mutex_) = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_ENTRY_INDEX_CACHE_H_
