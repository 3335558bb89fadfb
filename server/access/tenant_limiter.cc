#include "server/access/tenant_limiter.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/histogram.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "server/access/tenant_limits.h"

namespace memoryd {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

// Takes a turn of the rate: 0, or the nanoseconds until there is one.
std::int64_t WaitForTurn(std::atomic<std::int64_t>& due_ns, std::int64_t now_ns, int per_second) {
  const std::int64_t interval = kSecond / per_second;
  std::int64_t due = due_ns.load(std::memory_order_relaxed);
  for (;;) {
    const std::int64_t next = std::max(due, now_ns) + interval;
    // So far ahead of the rate that a second's worth is used up.
    if (next - now_ns > kSecond) return next - now_ns - kSecond;
    if (due_ns.compare_exchange_weak(due, next, std::memory_order_relaxed)) return 0;
  }
}

bool TakePlace(std::atomic<int>& in_flight, int most) {
  int taken = in_flight.load(std::memory_order_relaxed);
  do {
    if (most > 0 && taken >= most) return false;
  } while (!in_flight.compare_exchange_weak(taken, taken + 1, std::memory_order_relaxed));
  return true;
}

}  // namespace

TenantLimiter::TenantLimiter(TenantLimitTable limits, Clock now)
    : limits_(std::move(limits)), unlimited_(limits_.no_call_limits()), now_(std::move(now)) {}

void TenantLimiter::SetLimits(TenantLimitTable limits) {
  const bool unlimited = limits.no_call_limits();
  {
    const MutexLock lock(limits_mutex_);
    limits_ = std::move(limits);
  }
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    for (auto& [name, tenant] : shard.tenants) Take(name, tenant);
  }
  unlimited_ = unlimited;
}

void TenantLimiter::Take(const std::string& name, Tenant& tenant) {
  const MutexLock lock(limits_mutex_);
  const TenantLimits limits = limits_.Of(name);
  tenant.calls_per_second = limits.calls_per_second;
  tenant.calls_in_flight = limits.calls_in_flight;
  tenant.watches = limits.watches;
}

absl::StatusOr<TenantLimiter::Place> TenantLimiter::Enter(const std::string& name) {
  if (unlimited_.load(std::memory_order_relaxed)) return Place();
  Tenant& tenant = Find(name);
  const int most_in_flight = tenant.calls_in_flight.load(std::memory_order_relaxed);
  if (!TakePlace(tenant.in_flight, most_in_flight)) {
    Increment(refused_in_flight_);
    return Error(absl::StatusCode::kResourceExhausted, "TENANT_CALLS_IN_FLIGHT",
                 fmt::format("the tenant has {} calls under way, as many as it may have; nothing "
                             "was started, try again when one has ended",
                             most_in_flight));
  }
  Place place(&tenant.in_flight);
  MEMORYD_RETURN_IF_ERROR(TakeTurn(tenant));
  return place;
}

absl::Status TenantLimiter::TakeTurn(const std::string& name) {
  if (unlimited_.load(std::memory_order_relaxed)) return absl::OkStatus();
  return TakeTurn(Find(name));
}

absl::Status TenantLimiter::TakeTurn(Tenant& tenant) {
  const int per_second = tenant.calls_per_second.load(std::memory_order_relaxed);
  if (per_second <= 0) return absl::OkStatus();
  const std::int64_t now_ns = now_().time_since_epoch() / std::chrono::nanoseconds(1);
  const std::int64_t wait_ns = WaitForTurn(tenant.due_ns, now_ns, per_second);
  if (wait_ns <= 0) return absl::OkStatus();
  Increment(refused_rate_);
  // Rounded up, so that whoever waits so long has waited long enough.
  const std::int64_t wait_ms = (wait_ns + 999'999) / 1'000'000;
  return Error(absl::StatusCode::kResourceExhausted, "TENANT_RATE",
               fmt::format("the tenant may make {} calls a second; nothing was started, try "
                           "again after {} ms",
                           per_second, wait_ms),
               {{std::string(kRetryAfterMs), fmt::format("{}", wait_ms)}});
}

absl::StatusOr<TenantLimiter::Place> TenantLimiter::EnterWatch(const std::string& name) {
  Tenant& tenant = Find(name);
  const int most = tenant.watches.load(std::memory_order_relaxed);
  if (TakePlace(tenant.watching, most)) return Place(&tenant.watching);
  Increment(refused_watches_);
  return Error(absl::StatusCode::kResourceExhausted, "TENANT_WATCHES",
               fmt::format("the tenant watches {} sessions of this server, as many as the setting "
                           "tenant_watches allows; end a watch first",
                           most));
}

TenantLimiter::Tenant& TenantLimiter::Find(const std::string& name) {
  Shard& shard = shards_[absl::HashOf(name) % shards_.size()];
  MutexLock lock(shard.mutex);
  const auto [found, added] = shard.tenants.try_emplace(name);
  if (added) Take(name, found->second);
  return found->second;
}

}  // namespace memoryd
