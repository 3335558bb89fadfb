#include "core/writes/items/item_quota.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/storage/store.h"

namespace memoryd {
namespace {

// A sum over all namespaces of the tenant is not read more often for refusals alone.
constexpr std::int64_t kReadAgainUs = std::int64_t{10} * 1'000'000;

}  // namespace

void ItemQuota::Reserve(const std::string& tenant, const TenantUsage& growth, Done done) {
  if (quotas_ == nullptr) {
    done(Room());
  } else {
    Take(tenant, growth, /*again=*/false, std::move(done));
  }
}

void ItemQuota::Take(const std::string& tenant, const TenantUsage& growth, bool again, Done done) {
  if (!quotas_->Knows(tenant)) {
    quotas_->Read(
        tenant, [this, tenant, growth, again, done = std::move(done)](const absl::Status& status) {
          if (status.ok()) {
            Take(tenant, growth, again, done);
          } else {
            done(Reported(status));
          }
        });
    return;
  }
  Room room{growth, {}};
  absl::Status status = quotas_->Reserve(tenant, growth, room.reserved);
  if (status.ok()) {
    done(room);
  } else if (!again && MayBeLess(tenant)) {
    // As when nobody knows what was stored.
    quotas_->Settle(tenant, {}, CommitOutcome::kUnknown, {});
    Take(tenant, growth, /*again=*/true, std::move(done));
  } else {
    quotas_->CountRefusal(status);
    done(status);
  }
}

absl::StatusOr<ItemQuota::Room> ItemQuota::ReserveNow(const std::string& tenant,
                                                      const TenantUsage& growth) {
  Room room{growth, {}};
  if (quotas_ == nullptr) return room;
  absl::Status status = quotas_->Reserve(tenant, growth, room.reserved);
  if (status.ok()) return room;
  if (MayBeLess(tenant)) quotas_->Settle(tenant, {}, CommitOutcome::kUnknown, {});
  quotas_->CountRefusal(status);
  return status;
}

void ItemQuota::Settle(const std::string& tenant, const Room& room, CommitOutcome outcome,
                       const TenantUsage& change) {
  if (quotas_ != nullptr) quotas_->Settle(tenant, room.reserved, outcome, change);
}

void ItemQuota::Count(const std::string& tenant, const TenantUsage& change) {
  Settle(tenant, {}, CommitOutcome::kCommitted, change);
}

void ItemQuota::SetOvercounted(const std::string& tenant) {
  if (quotas_ == nullptr) return;
  const MutexLock lock(mutex_);
  overcounted_.insert(tenant);
}

bool ItemQuota::MayBeLess(const std::string& tenant) {
  const std::int64_t now_us = clock_->NowUs();
  const MutexLock lock(mutex_);
  std::int64_t& read_us = read_us_[tenant];
  const bool long_ago = read_us == 0 || now_us - read_us >= kReadAgainUs;
  if (overcounted_.erase(tenant) == 0 && !long_ago) return false;
  read_us = now_us;
  return true;
}

}  // namespace memoryd
