// Bounds the calls that wait for the store, and the bytes of their requests.
#ifndef MEMORYD_CORE_CALLS_ADMISSION_H_
#define MEMORYD_CORE_CALLS_ADMISSION_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/mutex.h"
#include "core/base/string_hash.h"

namespace memoryd {

// A tenant's share is the limit divided by the number of tenants that have calls here. Above the
// limit a call of a tenant within its share is still admitted, up to 5/4 of the limit; others are
// refused. So one tenant may fill the limit, but does not shut others out.
//
// Any thread may call any method.
class Admission {
 private:
  struct Tenant {
    std::atomic<std::int64_t> calls{0};
    std::atomic<std::int64_t> bytes{0};
  };

 public:
  // A call's place, released by the destructor. The admission outlives it.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)),
          tenant_(std::move(other.tenant_)),
          bytes_(other.bytes_) {}
    Place& operator=(Place&& other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(tenant_, other.tenant_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Place() {
      if (owner_ != nullptr) owner_->Leave(*tenant_, bytes_);
    }

   private:
    friend class Admission;
    Place(Admission* owner, std::shared_ptr<Tenant> tenant, std::int64_t bytes)
        : owner_(owner), tenant_(std::move(tenant)), bytes_(bytes) {}

    Admission* owner_ = nullptr;
    std::shared_ptr<Tenant> tenant_;
    std::int64_t bytes_ = 0;
  };

  enum class Outcome { kAdmitted, kTooManyCalls, kTooManyBytes };

  // `idle` is called when the last place was released.
  Admission(std::int64_t max_calls, std::int64_t max_bytes, std::function<void()> idle);

  // Sets `place` if the call is admitted. With `forced` it always is, and is counted.
  Outcome Enter(std::string_view tenant, std::int64_t bytes, bool forced, Place& place);

  std::int64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  std::int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct alignas(64) Shard {
    Mutex mutex;
    StringMap<std::shared_ptr<Tenant>> tenants MEMORYD_GUARDED_BY(mutex);
    // At how many tenants those without calls are removed.
    std::size_t next_cleaning MEMORYD_GUARDED_BY(mutex) = 64;
  };

  // The tenant, with one call more than before.
  std::shared_ptr<Tenant> Join(std::string_view tenant);
  void Leave(Tenant& tenant, std::int64_t bytes);

  const std::int64_t max_calls_;
  const std::int64_t max_bytes_;
  const std::function<void()> idle_;
  alignas(64) std::atomic<std::int64_t> calls_{0};
  std::atomic<std::int64_t> bytes_{0};
  std::atomic<std::int64_t> tenants_{0};  // That have calls.
  std::array<Shard, 16> shards_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_CALLS_ADMISSION_H_
