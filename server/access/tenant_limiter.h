// How much one tenant may ask of this server, so that the others are served meanwhile.
#ifndef MEMORYD_SERVER_ACCESS_TENANT_LIMITER_H_
#define MEMORYD_SERVER_ACCESS_TENANT_LIMITER_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/node_hash_map.h"
#include "absl/status/statusor.h"
#include "core/base/histogram.h"
#include "core/base/mutex.h"
#include "server/access/tenant_limits.h"

namespace memoryd {

// Any thread may call any method; none of them waits.
class TenantLimiter {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  explicit TenantLimiter(TenantLimitTable limits, Clock now = &std::chrono::steady_clock::now);

 private:
  struct Tenant {
    // Of its limits; SetLimits() changes them.
    std::atomic<int> calls_per_second{0};
    std::atomic<int> calls_in_flight{0};
    std::atomic<int> in_flight{0};
    std::atomic<int> watches{0};
    std::atomic<int> watching{0};
    // When a call that kept to the rate would come, in the clock's nanoseconds: the generic cell
    // rate algorithm (ITU-T I.371).
    std::atomic<std::int64_t> due_ns{0};
  };

 public:
  // A call's place among its tenant's, taken until it is destroyed. The limiter outlives it.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept : taken_(std::exchange(other.taken_, nullptr)) {}
    Place& operator=(Place&& other) noexcept {
      std::swap(taken_, other.taken_);
      return *this;
    }
    ~Place() {
      if (taken_ != nullptr) taken_->fetch_sub(1, std::memory_order_relaxed);
    }

   private:
    friend class TenantLimiter;
    explicit Place(std::atomic<int>* taken) : taken_(taken) {}
    std::atomic<int>* taken_ = nullptr;
  };

  // RESOURCE_EXHAUSTED, with nothing started: `TENANT_RATE`, with the value `retry_after_ms`, or
  // `TENANT_CALLS_IN_FLIGHT`. A call that is refused for its places takes no turn of the rate; one
  // that is refused for the rate has a place until then.
  absl::StatusOr<Place> Enter(const std::string& tenant);

  // A turn of the rate for work of a call that has its place. RESOURCE_EXHAUSTED `TENANT_RATE`.
  absl::Status TakeTurn(const std::string& tenant);

  // A place among the watches of its tenant. RESOURCE_EXHAUSTED `TENANT_WATCHES`.
  absl::StatusOr<Place> EnterWatch(const std::string& tenant);

  // From the next call on. Calls that began while nobody had a limit count for none.
  void SetLimits(TenantLimitTable limits) MEMORYD_EXCLUDES(limits_mutex_);

  std::uint64_t refused_rate() const { return refused_rate_; }
  std::uint64_t refused_in_flight() const { return refused_in_flight_; }
  std::uint64_t refused_watches() const { return refused_watches_; }

 private:
  // Tenants that have called, of which there are as many as credentials name.
  struct Shard {
    Mutex mutex;
    absl::node_hash_map<std::string, Tenant> tenants MEMORYD_GUARDED_BY(mutex);
  };

  Tenant& Find(const std::string& name);
  absl::Status TakeTurn(Tenant& tenant);
  void Take(const std::string& name, Tenant& tenant) MEMORYD_EXCLUDES(limits_mutex_);

  Mutex limits_mutex_;
  TenantLimitTable limits_ MEMORYD_GUARDED_BY(limits_mutex_);
  std::atomic<bool> unlimited_;
  const Clock now_;
  std::array<Shard, 16> shards_;
  Counter refused_rate_{0};
  Counter refused_in_flight_{0};
  Counter refused_watches_{0};
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_ACCESS_TENANT_LIMITER_H_
