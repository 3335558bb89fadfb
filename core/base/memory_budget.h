// One budget for all memory that callers can make the server hold, with a share for each tenant.
#ifndef MEMORYD_CORE_BASE_MEMORY_BUDGET_H_
#define MEMORYD_CORE_BASE_MEMORY_BUDGET_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/histogram.h"
#include "core/base/mutex.h"
#include "core/base/string_hash.h"

namespace memoryd {

// What memory is held for. Jobs: messages fed to blocks, calls to workers included. Answers:
// requests to models and their answers. The order is that of kMemoryUses.
enum class MemoryUse { kRequests, kReplies, kJobs, kAnswers, kSessions, kIndexes, kVectors };

// Their names, for metrics.
inline constexpr std::array<std::string_view, 7> kMemoryUses = {
    "requests", "replies", "jobs", "answers", "sessions", "indexes", "vectors"};

// Sessions, indexes and vectors can be read again, so they are evicted before a call is refused.
inline constexpr bool IsCache(MemoryUse use) { return use >= MemoryUse::kSessions; }

// Bytes, by MemoryUse.
using MemoryByUse = std::array<std::int64_t, kMemoryUses.size()>;

// Any thread may call any method. None of them waits, except for an eviction that another thread
// has begun. The budget outlives its holds.
//
// A share is the limit divided by the number of tenants that hold something. When memory is short,
// caches are evicted first, those of the largest holder before others. If that is not enough:
//   - the largest holder is refused above 3/4 of the limit, if it is above its share;
//   - a tenant above its share is refused above the limit and a part of a quarter more: none for
//     the largest holder, and more the less the tenant would hold beside that one;
//   - a tenant below its share is refused only above 5/4 of the limit.
// One tenant never has more than half of the limit for uses that can't be evicted, and never fills
// more than 9/10 with caches.
class MemoryBudget {
 private:
  struct Account;

 public:
  // A tenant's bytes for one use, released by the destructor. One thread at a time.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)),
          account_(std::move(other.account_)),
          use_(other.use_),
          bytes_(std::exchange(other.bytes_, 0)) {}
    Hold& operator=(Hold&& other) noexcept {
      // What this one had is released here, not when `other` is.
      Hold taken(std::move(other));
      std::swap(budget_, taken.budget_);
      std::swap(account_, taken.account_);
      std::swap(use_, taken.use_);
      std::swap(bytes_, taken.bytes_);
      return *this;
    }
    ~Hold() { Release(); }

    // Sets the size. Never refused and evicts nothing, so it may be called under a cache's lock.
    void Resize(std::int64_t bytes);
    // Adds `bytes` as Take() does. On an error the size stays as it was.
    absl::Status Grow(std::int64_t bytes);
    // Gives all back; the hold is empty then, as one made by Hold().
    void Release();

    std::int64_t bytes() const { return bytes_; }

   private:
    friend class MemoryBudget;
    Hold(MemoryBudget* budget, std::shared_ptr<Account> account, MemoryUse use, std::int64_t bytes)
        : budget_(budget), account_(std::move(account)), use_(use), bytes_(bytes) {}

    MemoryBudget* budget_ = nullptr;
    std::shared_ptr<Account> account_;
    MemoryUse use_ = MemoryUse::kRequests;
    std::int64_t bytes_ = 0;
  };

  // Evicts at least `bytes` of `tenant`, or all that can be evicted.
  using Evict = std::function<void(const std::string& tenant, std::int64_t bytes)>;

  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  // `limit` in bytes; 0: count only, nothing is refused or evicted.
  explicit MemoryBudget(std::int64_t limit, Clock now = &std::chrono::steady_clock::now);

  // Names the function that evicts from the cache of `use`, and removes it. It is called with none
  // of the budget's locks but that of evictions held, so it must not call Take(), Grow() or
  // MakeRoom().
  void AddCache(MemoryUse use, Evict evict) MEMORYD_EXCLUDES(eviction_mutex_);
  void RemoveCache(MemoryUse use) MEMORYD_EXCLUDES(eviction_mutex_);

  // Takes `bytes` for `tenant`, after evicting caches where necessary. RESOURCE_EXHAUSTED
  // `MEMORY_SHORT` with the value `retry_after_ms`. Not under a cache's lock.
  absl::StatusOr<Hold> Take(std::string_view tenant, MemoryUse use, std::int64_t bytes);
  // The same for work that can wait: none where Take() would fail, and no refusal is counted.
  std::optional<Hold> TryTake(std::string_view tenant, MemoryUse use, std::int64_t bytes);
  // Counts bytes that exist already. Never refused, evicts nothing.
  Hold Count(std::string_view tenant, MemoryUse use, std::int64_t bytes);

  // Evicts until the caches of the hold's tenant, and all holds, are within bounds, as far as that
  // can be. To be called after a cache has grown, not under its lock. Cheap when there is nothing
  // to do. The hold may be resized by other threads meanwhile, but not moved or released.
  void MakeRoom(const Hold& hold);
  // Evicts about half of all caches, those of the largest holders first.
  void Shrink();

  // The most that one tenant can ever take for `use`, in bytes.
  std::int64_t MostOfTenant(MemoryUse use) const;
  // Whether `tenant` holds at least as much as the mean of the tenants that hold something. At
  // least one of them does.
  bool HoldsMuch(std::string_view tenant);

  std::int64_t limit() const { return limit_; }
  // Bytes held by all tenants.
  std::int64_t held() const {
    return fixed_.load(std::memory_order_relaxed) + caches_.load(std::memory_order_relaxed);
  }
  // Tenants that hold something.
  std::int64_t holders() const { return holders_.load(std::memory_order_relaxed); }
  // Bytes evicted, by use.
  std::uint64_t evicted_bytes(MemoryUse use) const {
    return evicted_bytes_[static_cast<std::size_t>(use)];
  }
  // Calls of Take() and Grow() that failed, by use.
  std::uint64_t refused(MemoryUse use) const { return refused_[static_cast<std::size_t>(use)]; }

  struct TenantMemory {
    std::string tenant;
    MemoryByUse held = {};
    std::uint64_t refused = 0;
  };
  // Tenants that hold something or were refused lately, in no order.
  std::vector<TenantMemory> Tenants();
  MemoryByUse HeldByUse();

 private:
  struct Account {
    explicit Account(std::string_view tenant) : name(tenant) {}

    const std::string name;
    std::array<std::atomic<std::int64_t>, kMemoryUses.size()> held = {};
    std::atomic<std::int64_t> fixed{0};  // Of uses that can't be evicted.
    std::atomic<std::int64_t> all{0};
    Counter refused{0};
    // Before that nothing is evicted from it, since what is left is in use. Under eviction_mutex_.
    std::chrono::steady_clock::time_point next_eviction;
  };
  using AccountPtr = std::shared_ptr<Account>;

  struct alignas(64) Shard {
    Mutex mutex;
    StringMap<AccountPtr> accounts MEMORYD_GUARDED_BY(mutex);
    // At how many accounts those that hold nothing are removed.
    std::size_t next_cleaning MEMORYD_GUARDED_BY(mutex) = 256;
  };

  AccountPtr Find(std::string_view tenant);
  std::vector<AccountPtr> Accounts();
  // Adds `bytes`, which may be negative, to all counts.
  void Add(Account& account, MemoryUse use, std::int64_t bytes);
  // Adds `bytes` if they are admitted.
  bool Admit(Account& account, MemoryUse use, std::int64_t bytes);
  bool AdmitWhenShort(Account& account, MemoryUse use, std::int64_t bytes)
      MEMORYD_EXCLUDES(eviction_mutex_);
  absl::Status Refuse(Account& account, MemoryUse use);
  // What the largest of the other tenants holds.
  std::int64_t MostOfAnother(const Account& account);
  // Evicts about `bytes`, those of the largest holders first.
  void EvictLargest(std::int64_t bytes) MEMORYD_REQUIRES(eviction_mutex_);
  // Returns how many bytes were released.
  std::int64_t EvictFrom(Account& account, std::int64_t bytes) MEMORYD_REQUIRES(eviction_mutex_);
  // Evicts what exceeds the bounds once `account` has taken `bytes` more for `use`.
  void EvictFor(Account& account, MemoryUse use, std::int64_t bytes)
      MEMORYD_REQUIRES(eviction_mutex_);

  const std::int64_t limit_;
  const Clock now_;
  alignas(64) std::atomic<std::int64_t> fixed_{0};
  alignas(64) std::atomic<std::int64_t> caches_{0};
  alignas(64) std::atomic<std::int64_t> holders_{0};
  std::array<Counter, kMemoryUses.size()> refused_ = {};
  std::array<Counter, kMemoryUses.size()> evicted_bytes_ = {};
  // One eviction at a time: two would evict twice what is needed.
  Mutex eviction_mutex_;
  std::array<Evict, kMemoryUses.size()> evict_ MEMORYD_GUARDED_BY(eviction_mutex_);
  std::array<Shard, 16> shards_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_MEMORY_BUDGET_H_
