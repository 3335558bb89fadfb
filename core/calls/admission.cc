#include "core/calls/admission.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/mutex.h"

namespace memoryd {
namespace {

// Whether `own` of `total` may be held under `limit` while `tenants` hold something.
bool Fits(std::int64_t own, std::int64_t total, std::int64_t limit, std::int64_t tenants) {
  if (total <= limit) return true;
  return own <= limit / std::max<std::int64_t>(tenants, 1) && total <= limit + limit / 4;
}

}  // namespace

Admission::Admission(std::int64_t max_calls, std::int64_t max_bytes, std::function<void()> idle)
    : max_calls_(max_calls), max_bytes_(max_bytes), idle_(std::move(idle)) {}

std::shared_ptr<Admission::Tenant> Admission::Join(std::string_view tenant) {
  Shard& shard = shards_[StringHash()(tenant) % shards_.size()];
  MutexLock lock(shard.mutex);
  if (const auto found = shard.tenants.find(tenant); found != shard.tenants.end()) {
    // Under the lock, so that cleaning spares it.
    if (found->second->calls.fetch_add(1) == 0) tenants_.fetch_add(1, std::memory_order_relaxed);
    return found->second;
  }
  if (shard.tenants.size() >= shard.next_cleaning) {
    std::erase_if(shard.tenants, [](const auto& entry) { return entry.second->calls == 0; });
    shard.next_cleaning = std::max<std::size_t>(64, 2 * shard.tenants.size());
  }
  auto joined = std::make_shared<Tenant>();
  joined->calls.store(1);
  shard.tenants.try_emplace(std::string(tenant), joined);
  tenants_.fetch_add(1, std::memory_order_relaxed);
  return joined;
}

Admission::Outcome Admission::Enter(std::string_view tenant, std::int64_t bytes, bool forced,
                                    Place& place) {
  std::shared_ptr<Tenant> joined = Join(tenant);
  const std::int64_t own_bytes = joined->bytes.fetch_add(bytes) + bytes;
  const std::int64_t own_calls = joined->calls.load();
  const std::int64_t calls = calls_.fetch_add(1) + 1;
  const std::int64_t total = bytes_.fetch_add(bytes) + bytes;
  Place taken(this, std::move(joined), bytes);
  if (!forced) {
    const std::int64_t tenants = tenants_.load(std::memory_order_relaxed);
    if (!Fits(own_calls, calls, max_calls_, tenants)) return Outcome::kTooManyCalls;
    if (!Fits(own_bytes, total, max_bytes_, tenants)) return Outcome::kTooManyBytes;
  }
  place = std::move(taken);
  return Outcome::kAdmitted;
}

void Admission::Leave(Tenant& tenant, std::int64_t bytes) {
  tenant.bytes.fetch_sub(bytes);
  if (tenant.calls.fetch_sub(1) == 1) tenants_.fetch_sub(1, std::memory_order_relaxed);
  bytes_.fetch_sub(bytes);
  if (calls_.fetch_sub(1) == 1) idle_();
}

}  // namespace memoryd
