// The way of a batch of items from its call to a committer and back.
#ifndef MEMORYD_CORE_WRITES_ITEMS_ITEM_WRITE_PATH_H_
#define MEMORYD_CORE_WRITES_ITEMS_ITEM_WRITE_PATH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/base/wall_clock.h"
#include "core/calls/calls.h"
#include "core/storage/item_store.h"
#include "core/writes/items/item_call.h"
#include "core/writes/items/item_committer.h"
#include "core/writes/items/item_quota.h"
#include "core/writes/quotas.h"

namespace memoryd {

// A batch is admitted, and the committer that owns its tenant writes it. Any thread may call.
class ItemWritePath final : private RecordedItems {
 public:
  // What is pointed to outlives the path.
  struct Options {
    ItemStore* store = nullptr;
    Calls* calls = nullptr;
    Quotas* quotas = nullptr;  // Null: no tenant has a quota.
    // Threads that commit, at least 1; each owns a share of the tenants, so that the batches of one
    // call are one statement.
    int committers = 1;
    const WallClock* clock = nullptr;
  };

  explicit ItemWritePath(Options options);
  // Commits what is queued.
  ~ItemWritePath() override;
  ItemWritePath(const ItemWritePath&) = delete;
  ItemWritePath& operator=(const ItemWritePath&) = delete;

  // `batch` is checked. RESOURCE_EXHAUSTED `QUEUE_FULL` when too many calls wait, or the store is
  // too slow for the time that the call has, and `QUOTA_EXCEEDED`: nothing was started. See
  // item_call.h for the others.
  void Submit(ItemBatch batch, std::size_t byte_size, CallEnd end, ItemCall::Done done);

  // The same for a call that has its place already.
  void SubmitAdmitted(ItemBatch batch, std::size_t byte_size, CallEnd end, Admission::Place place,
                      ItemCall::Done done);

  // What a thread submits for the tenant while this lives is written together.
  ItemCommitter::Gathering Gather(const std::string& tenant) {
    return ItemCommitter::Gathering(CommitterOf(tenant));
  }

  // Of all that is written to namespaces.
  ItemQuota& quota() { return quota_; }

  // Commits what is queued, and takes nothing more.
  void Stop() { committers_.clear(); }

 private:
  // A call that was admitted, before it is known whether there is room for what it stores.
  struct Asked {
    ItemBatch batch;
    std::size_t byte_size = 0;
    CallEnd end;
    Admission::Place place;
    ItemCall::Done done;
  };
  // `namespace_bytes`: what the namespace counts, if it was made.
  void Settle(const std::string& tenant, const ItemQuota::Room& room, std::int64_t namespace_bytes,
              const absl::StatusOr<ItemsWritten>& reply);
  void Enqueue(Asked asked);
  // See AdmitInTime().
  absl::Status CheckTime(const std::string& tenant, const CallEnd& end);
  // A call that was admitted; `place` is given back when it is gone.
  std::shared_ptr<ItemCall> Begin(ItemBatch batch, std::size_t byte_size, CallEnd end,
                                  Admission::Place place, ItemCall::Done done);
  ItemCommitter& CommitterOf(const std::string& tenant);
  void Answer(const std::shared_ptr<ItemCall>& call);
  void LookUp(std::shared_ptr<ItemCall> call) override;

  const Options options_;
  ItemQuota quota_;
  std::vector<std::unique_ptr<ItemCommitter>> committers_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_ITEMS_ITEM_WRITE_PATH_H_
