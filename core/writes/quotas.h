// How much a tenant may store.
#ifndef MEMORYD_CORE_WRITES_QUOTAS_H_
#define MEMORYD_CORE_WRITES_QUOTAS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "core/calls/engine_stats.h"
#include "core/calls/executor.h"
#include "core/storage/store.h"

namespace memoryd {

// Of one tenant. 0: any number.
struct Quota {
  std::int64_t sessions = 0;
  std::int64_t messages = 0;  // And contents, and items.
  std::int64_t bytes = 0;     // Of their bodies, as they are stored, and of items.

  bool none() const { return sessions == 0 && messages == 0 && bytes == 0; }
};

// Keeps what each tenant with a quota has stored: read from the store once, then counted along with
// each commit, so that a write costs no look at the store (docs/adr/0019-quotas.md). Any thread may
// call any method; only Refresh() blocks.
class Quotas {
 public:
  using QuotaOf = std::function<Quota(std::string_view tenant)>;
  using Waiter = std::function<void(const absl::Status&)>;

  // What is pointed to outlives this.
  Quotas(Store* store, QuotaOf quota_of, Executor* executor, EngineStats* stats);

  // Whether the tenant's writes can be checked; Read() makes it so.
  bool Knows(const std::string& tenant);
  // Reads what the tenant has stored, once for all who ask meanwhile. `done` is called on this
  // thread or one of the executor's.
  void Read(const std::string& tenant, Waiter done);

  // Takes room for `growth` and adds what it took to `reserved`. RESOURCE_EXHAUSTED
  // `QUOTA_EXCEEDED`, with the values `quota`, `limit` and `used`, when something that grows would
  // go over its quota; nothing is taken then.
  absl::Status Reserve(const std::string& tenant, const TenantUsage& growth, TenantUsage& reserved);
  // For a refusal of Reserve()'s that is told.
  void CountRefusal(const absl::Status& refusal);
  // Gives back what Reserve() took for `growth`.
  void Release(const std::string& tenant, const TenantUsage& growth, TenantUsage& reserved);
  // Gives `reserved` back once its commit has ended, and counts `change` if it is committed.
  void Settle(const std::string& tenant, const TenantUsage& reserved, CommitOutcome outcome,
              const TenantUsage& change);

  // Reads anew what tenants have stored that were written to since the last time.
  void Refresh();

 private:
  struct Tenant {
    Quota quota;
    bool known = false;
    bool reading = false;
    bool written = false;  // Since it was read.
    TenantUsage stored;
    TenantUsage reserved;
    std::vector<Waiter> waiting;
  };
  // Tenants that have written, of which there are as many as credentials name.
  struct Shard {
    Mutex mutex;
    absl::node_hash_map<std::string, Tenant> tenants MEMORYD_GUARDED_BY(mutex);
  };

  Shard& ShardOf(const std::string& tenant);
  Tenant& Find(Shard& shard, const std::string& tenant) MEMORYD_REQUIRES(shard.mutex);
  // Of sessions and of items.
  absl::StatusOr<TenantUsage> ReadUsage(const std::string& tenant);
  void ReadNow(const std::string& tenant);

  Store* const store_;
  const QuotaOf quota_of_;
  Executor* const executor_;
  EngineStats* const stats_;
  std::array<Shard, 16> shards_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_QUOTAS_H_
