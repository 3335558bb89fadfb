// The limits of tenants while the server runs.
#ifndef MEMORYD_SERVER_LIMITS_IN_FORCE_H_
#define MEMORYD_SERVER_LIMITS_IN_FORCE_H_

#include <string_view>
#include <utility>

#include "core/base/mutex.h"
#include "server/tenant_limits.h"

namespace memoryd {

// A table that is replaced as a whole while others read it. Any thread.
class LimitsInForce {
 public:
  explicit LimitsInForce(TenantLimitTable table) : table_(std::move(table)) {}

  TenantLimits Of(std::string_view tenant) const {
    const MutexLock lock(mutex_);
    return table_.Of(tenant);
  }
  void Replace(TenantLimitTable table) {
    const MutexLock lock(mutex_);
    table_ = std::move(table);
  }

 private:
  mutable Mutex mutex_;
  TenantLimitTable table_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_LIMITS_IN_FORCE_H_
