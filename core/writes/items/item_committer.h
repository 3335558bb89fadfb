// Commits batches of items that wait, across namespaces and tenants, in one transaction.
#ifndef MEMORYD_CORE_WRITES_ITEMS_ITEM_COMMITTER_H_
#define MEMORYD_CORE_WRITES_ITEMS_ITEM_COMMITTER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/wall_clock.h"
#include "core/calls/engine_stats.h"
#include "core/calls/serial_worker.h"
#include "core/calls/tenant_queue.h"
#include "core/calls/wake_scope.h"
#include "core/storage/item_store.h"
#include "core/writes/commit_pace.h"
#include "core/writes/items/item_call.h"

namespace memoryd {

// Finds out what is kept under a call's request_id, and finishes the call with it, or enqueues it
// again. Any thread; nothing waits.
class RecordedItems {
 public:
  virtual ~RecordedItems() = default;
  virtual void LookUp(std::shared_ptr<ItemCall> call) = 0;
};

// Owns a share of the tenants, and commits one batch at a time: on the thread of a lone call, else
// on one of its own (SerialWorker). While some calls are on their way to the store the next ones
// gather, so what is written together grows with the load. Tenants share it by the bytes that they
// write. Of two calls that write one key the earlier one is committed before the later.
class ItemCommitter {
 public:
  // What is pointed to outlives the committer.
  struct Options {
    ItemStore* store = nullptr;
    EngineStats* stats = nullptr;
    RecordedItems* recorded = nullptr;
    const WallClock* clock = nullptr;
  };

  explicit ItemCommitter(Options options);
  // Commits what is queued.
  ~ItemCommitter() = default;
  ItemCommitter(const ItemCommitter&) = delete;
  ItemCommitter& operator=(const ItemCommitter&) = delete;

  // The number of queued calls is bounded by admission. Any thread.
  void Enqueue(std::shared_ptr<ItemCall> call) MEMORYD_EXCLUDES(mutex_);

  // While one of these lives a committer that sleeps is not woken: the calls that are enqueued
  // meanwhile are written together. The committer outlives it. For one thread, which waits for
  // nothing in the meantime.
  class Gathering {
   public:
    explicit Gathering(ItemCommitter& committer);
    ~Gathering();
    Gathering(const Gathering&) = delete;
    Gathering& operator=(const Gathering&) = delete;

   private:
    ItemCommitter& committer_;
  };

  // An estimate of how long the calls that are here already will take. Any thread.
  std::chrono::nanoseconds ExpectedWait() const {
    return pace_.Expected(static_cast<std::int64_t>(calls_.load(std::memory_order_relaxed)));
  }
  // An estimate for those that come before the next call of this tenant. Any thread.
  std::chrono::nanoseconds ExpectedWait(std::string_view tenant) MEMORYD_EXCLUDES(mutex_);

 private:
  using Calls = std::vector<std::shared_ptr<ItemCall>>;

  // Until nothing is queued.
  void CommitQueued() MEMORYD_EXCLUDES(mutex_);
  Calls Take() MEMORYD_REQUIRES(mutex_);
  // This thread sends the replies of a batch itself, unless the next batch waits.
  WakeScope::AtEnd AtEndOfBatch() MEMORYD_EXCLUDES(mutex_);
  void Commit(const Calls& taken);
  void Conclude(const std::shared_ptr<ItemCall>& call, const ItemBatchResult& result,
                std::int64_t now_us);

  const Options options_;
  CommitPace pace_;
  std::atomic<std::size_t> calls_{0};  // Queued, or under way.
  Mutex mutex_;
  // Its costs are bytes.
  TenantQueue<std::shared_ptr<ItemCall>> queue_ MEMORYD_GUARDED_BY(mutex_);
  std::int64_t gathering_ MEMORYD_GUARDED_BY(mutex_) = 0;
  SerialWorker worker_{[this] { CommitQueued(); }};
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_ITEMS_ITEM_COMMITTER_H_
