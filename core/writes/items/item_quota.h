// What items and namespaces take of their tenant's quota.
#ifndef MEMORYD_CORE_WRITES_ITEMS_ITEM_QUOTA_H_
#define MEMORYD_CORE_WRITES_ITEMS_ITEM_QUOTA_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/base/wall_clock.h"
#include "core/storage/store.h"
#include "core/writes/quotas.h"

namespace memoryd {

// Any thread may call any method; none waits.
class ItemQuota {
 public:
  // Room that a write has until it ends.
  struct Room {
    TenantUsage growth;
    TenantUsage reserved;
  };
  using Done = std::function<void(absl::StatusOr<Room>)>;

  // `quotas` outlives it. Null: no tenant has a quota.
  ItemQuota(Quotas* quotas, const WallClock* clock) : quotas_(quotas), clock_(clock) {}

  // Takes room for `growth`. What the tenant has stored is read first where that is not known, and
  // again before a refusal if more may be counted than there is. RESOURCE_EXHAUSTED
  // `QUOTA_EXCEEDED`. `done` is called on this thread or a reader's.
  void Reserve(const std::string& tenant, const TenantUsage& growth, Done done);
  // The same at once, by what is known. After a refusal that may be wrong the next call reads
  // again.
  absl::StatusOr<Room> ReserveNow(const std::string& tenant, const TenantUsage& growth);
  // Gives the room back once its write has ended, and counts `change` if it is committed.
  void Settle(const std::string& tenant, const Room& room, CommitOutcome outcome,
              const TenantUsage& change);
  // Counts what was deleted; fields are negative.
  void Count(const std::string& tenant, const TenantUsage& change);
  // Something was replaced or deleted that is counted still.
  void SetOvercounted(const std::string& tenant) MEMORYD_EXCLUDES(mutex_);

 private:
  void Take(const std::string& tenant, const TenantUsage& growth, bool again, Done done);
  // Whether a refusal may be wrong: what was replaced, has expired or was erased may be counted.
  bool MayBeLess(const std::string& tenant) MEMORYD_EXCLUDES(mutex_);

  Quotas* const quotas_;
  const WallClock* const clock_;
  Mutex mutex_;
  // Since their usage was read.
  std::set<std::string> overcounted_ MEMORYD_GUARDED_BY(mutex_);
  // When a refusal last had the usage read again, by tenant.
  std::map<std::string, std::int64_t> read_us_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_ITEMS_ITEM_QUOTA_H_
