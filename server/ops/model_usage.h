// What models take for tenants, and how much of it they may.
#ifndef MEMORYD_SERVER_OPS_MODEL_USAGE_H_
#define MEMORYD_SERVER_OPS_MODEL_USAGE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "core/base/wall_clock.h"
#include "core/model/job.h"
#include "server/access/tenant_limits.h"

namespace memoryd {

// Of this server, from its start on: what others take of a tenant's budget is not known here. Any
// thread may call any method; none of them waits.
class ModelUsage {
 public:
  // Whether a tenant is one of a closed set, whose names may stand in metrics.
  using IsNamed = std::function<bool(std::string_view tenant)>;

  // Asked each time: budgets change while the server runs.
  using BudgetOf = std::function<ModelBudget(std::string_view tenant)>;

  ModelUsage(BudgetOf budget_of, IsNamed is_named, const WallClock* clock);

  void Count(const std::string& tenant, const Usage& usage) MEMORYD_EXCLUDES(mutex_);

  // RESOURCE_EXHAUSTED `MODEL_BUDGET`, with the value `retry_after_ms`, when models have taken for
  // the tenant today what they may. What is under way is counted when it is answered: together such
  // calls may go over the budget.
  absl::Status MayAsk(const std::string& tenant) MEMORYD_EXCLUDES(mutex_);

  struct OfTenant {
    Usage total;  // Since the server began.
    Usage today;
    ModelBudget budget;
  };
  OfTenant Of(const std::string& tenant) MEMORYD_EXCLUDES(mutex_);

  // For metrics: a named tenant, or kOthers for all others together.
  struct Series {
    Usage total;
    std::uint64_t refused = 0;
  };
  static constexpr std::string_view kOthers = "other";
  static constexpr std::size_t kMaxNames = 1000;
  std::map<std::string, Series> All() const MEMORYD_EXCLUDES(mutex_);

 private:
  struct Tenant {
    Usage total;
    std::int64_t day = 0;  // Since the epoch.
    Usage today;
    Series* series = nullptr;
  };

  // Brought to today.
  Tenant& Find(const std::string& name, std::int64_t now_us) MEMORYD_REQUIRES(mutex_);

  const BudgetOf budget_of_;
  const IsNamed is_named_;
  const WallClock* const clock_;
  mutable Mutex mutex_;
  // A tenant is one of the credentials' and stays: there are not many.
  std::map<std::string, Tenant> tenants_ MEMORYD_GUARDED_BY(mutex_);
  std::map<std::string, Series> series_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_OPS_MODEL_USAGE_H_
