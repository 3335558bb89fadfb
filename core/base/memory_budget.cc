#include "core/base/memory_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/histogram.h"
#include "core/base/mutex.h"

namespace memoryd {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr int kRetryMs = 1000;
// An eviction looks through caches, so it frees this part of the limit more than is needed.
constexpr std::int64_t kExtraEvicted = 64;
// How soon a tenant's caches are looked through again when too little could be evicted.
constexpr std::chrono::milliseconds kEvictionPause(20);

constexpr std::array<MemoryUse, 3> kCaches = {MemoryUse::kSessions, MemoryUse::kIndexes,
                                              MemoryUse::kVectors};

constexpr std::size_t Index(MemoryUse use) { return static_cast<std::size_t>(use); }

// Adds `bytes` unless the sum would exceed `most`.
bool TryAdd(std::atomic<std::int64_t>& sum, std::int64_t bytes, std::int64_t most) {
  std::int64_t now = sum.load(kRelaxed);
  do {
    if (bytes > most - now) return false;
  } while (!sum.compare_exchange_weak(now, now + bytes, kRelaxed));
  return true;
}

}  // namespace

MemoryBudget::MemoryBudget(std::int64_t limit, Clock now) : limit_(limit), now_(std::move(now)) {}

void MemoryBudget::Hold::Resize(std::int64_t bytes) {
  if (budget_ == nullptr || bytes == bytes_) return;
  budget_->Add(*account_, use_, bytes - bytes_);
  bytes_ = bytes;
}

absl::Status MemoryBudget::Hold::Grow(std::int64_t bytes) {
  if (budget_ == nullptr) return absl::OkStatus();
  if (!budget_->Admit(*account_, use_, bytes)) return budget_->Refuse(*account_, use_);
  bytes_ += bytes;
  return absl::OkStatus();
}

void MemoryBudget::Hold::Release() {
  Resize(0);
  budget_ = nullptr;
  account_.reset();
}

void MemoryBudget::AddCache(MemoryUse use, Evict evict) {
  const MutexLock lock(eviction_mutex_);
  evict_[Index(use)] = std::move(evict);
}

void MemoryBudget::RemoveCache(MemoryUse use) {
  const MutexLock lock(eviction_mutex_);
  evict_[Index(use)] = nullptr;
}

absl::StatusOr<MemoryBudget::Hold> MemoryBudget::Take(std::string_view tenant, MemoryUse use,
                                                      std::int64_t bytes) {
  AccountPtr account = Find(tenant);
  if (!Admit(*account, use, bytes)) return Refuse(*account, use);
  return Hold(this, std::move(account), use, bytes);
}

std::optional<MemoryBudget::Hold> MemoryBudget::TryTake(std::string_view tenant, MemoryUse use,
                                                        std::int64_t bytes) {
  AccountPtr account = Find(tenant);
  if (!Admit(*account, use, bytes)) return std::nullopt;
  return Hold(this, std::move(account), use, bytes);
}

MemoryBudget::Hold MemoryBudget::Count(std::string_view tenant, MemoryUse use, std::int64_t bytes) {
  AccountPtr account = Find(tenant);
  Add(*account, use, bytes);
  return Hold(this, std::move(account), use, bytes);
}

void MemoryBudget::MakeRoom(const Hold& hold) {
  if (limit_ == 0 || hold.account_ == nullptr) return;
  const AccountPtr account = hold.account_;
  if (held() <= limit_ && account->all.load(kRelaxed) <= MostOfTenant(MemoryUse::kSessions)) {
    return;
  }
  const MutexLock lock(eviction_mutex_);
  EvictFor(*account, MemoryUse::kSessions, 0);
}

void MemoryBudget::Shrink() {
  const MutexLock lock(eviction_mutex_);
  EvictLargest(caches_.load(kRelaxed) / 2);
}

std::int64_t MemoryBudget::MostOfTenant(MemoryUse use) const {
  return IsCache(use) ? limit_ / 10 * 9 : limit_ / 2;
}

bool MemoryBudget::HoldsMuch(std::string_view tenant) {
  const AccountPtr account = Find(tenant);
  return account->all.load(kRelaxed) >= held() / std::max<std::int64_t>(1, holders());
}

std::vector<MemoryBudget::TenantMemory> MemoryBudget::Tenants() {
  std::vector<TenantMemory> tenants;
  for (const AccountPtr& account : Accounts()) {
    TenantMemory& tenant = tenants.emplace_back();
    tenant.tenant = account->name;
    for (std::size_t use = 0; use < kMemoryUses.size(); ++use) {
      tenant.held[use] = account->held[use].load(kRelaxed);
    }
    tenant.refused = account->refused;
  }
  return tenants;
}

MemoryByUse MemoryBudget::HeldByUse() {
  MemoryByUse sum = {};
  for (const TenantMemory& tenant : Tenants()) {
    for (std::size_t use = 0; use < sum.size(); ++use) sum[use] += tenant.held[use];
  }
  return sum;
}

MemoryBudget::AccountPtr MemoryBudget::Find(std::string_view tenant) {
  // The map uses the hash's remainder by a prime.
  Shard& shard = shards_[(StringHash()(tenant) >> 48) % shards_.size()];
  const MutexLock lock(shard.mutex);
  if (const auto found = shard.accounts.find(tenant); found != shard.accounts.end()) {
    return found->second;
  }
  if (shard.accounts.size() >= shard.next_cleaning) {
    // Whoever holds one got it under this lock.
    std::erase_if(shard.accounts, [](const auto& account) {
      return account.second.use_count() == 1 && account.second->all.load(kRelaxed) == 0;
    });
    shard.next_cleaning = std::max<std::size_t>(256, 2 * shard.accounts.size());
  }
  return shard.accounts.emplace(tenant, std::make_shared<Account>(tenant)).first->second;
}

std::vector<MemoryBudget::AccountPtr> MemoryBudget::Accounts() {
  std::vector<AccountPtr> accounts;
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    for (const auto& [name, account] : shard.accounts) accounts.push_back(account);
  }
  return accounts;
}

void MemoryBudget::Add(Account& account, MemoryUse use, std::int64_t bytes) {
  if (bytes == 0) return;
  account.held[Index(use)].fetch_add(bytes, kRelaxed);
  if (IsCache(use)) {
    caches_.fetch_add(bytes, kRelaxed);
  } else {
    account.fixed.fetch_add(bytes, kRelaxed);
    fixed_.fetch_add(bytes, kRelaxed);
  }
  const std::int64_t before = account.all.fetch_add(bytes, kRelaxed);
  if (before == 0) holders_.fetch_add(1, kRelaxed);
  if (before + bytes == 0) holders_.fetch_sub(1, kRelaxed);
}

bool MemoryBudget::Admit(Account& account, MemoryUse use, std::int64_t bytes) {
  if (limit_ == 0 || bytes <= 0) {
    Add(account, use, bytes);
    return true;
  }
  if (IsCache(use)) {
    // A load's size is known only roughly before it; MakeRoom() follows it.
    if (bytes > MostOfTenant(use) - account.all.load(kRelaxed) || bytes > limit_ - held()) {
      return AdmitWhenShort(account, use, bytes);
    }
    Add(account, use, bytes);
    return true;
  }
  if (!TryAdd(account.fixed, bytes, MostOfTenant(use))) return false;
  const std::int64_t most = std::min(limit_ / 4 * 3, limit_ - caches_.load(kRelaxed));
  if (!TryAdd(fixed_, bytes, most)) {
    account.fixed.fetch_sub(bytes, kRelaxed);
    return AdmitWhenShort(account, use, bytes);
  }
  account.held[Index(use)].fetch_add(bytes, kRelaxed);
  if (account.all.fetch_add(bytes, kRelaxed) == 0) holders_.fetch_add(1, kRelaxed);
  return true;
}

bool MemoryBudget::AdmitWhenShort(Account& account, MemoryUse use, std::int64_t bytes) {
  const MutexLock lock(eviction_mutex_);
  EvictFor(account, use, bytes);
  const std::int64_t of_tenant = account.all.load(kRelaxed);
  const std::int64_t in_all = held() + bytes;
  if (IsCache(use) ? of_tenant + bytes > MostOfTenant(use)
                   : account.fixed.load(kRelaxed) + bytes > MostOfTenant(use)) {
    return false;
  }
  const std::int64_t holders = this->holders() + (of_tenant == 0 ? 1 : 0);
  if (of_tenant + bytes <= limit_ / std::max<std::int64_t>(1, holders)) {
    if (in_all > limit_ / 4 * 5) return false;
  } else if (const bool much_is_fixed = fixed_.load(kRelaxed) + bytes > limit_ / 4 * 3;
             in_all > limit_ || much_is_fixed) {
    const std::int64_t largest = MostOfAnother(account);
    if (much_is_fixed && of_tenant >= largest) return false;
    // Beyond the limit there is less for it the nearer it comes to the largest holder.
    const double part = static_cast<double>(of_tenant + bytes) /
                        static_cast<double>(std::max(largest, of_tenant + bytes));
    const auto beyond = static_cast<std::int64_t>(static_cast<double>(limit_ / 4) * (1 - part));
    if (in_all > limit_ + beyond) return false;
  }
  Add(account, use, bytes);
  return true;
}

absl::Status MemoryBudget::Refuse(Account& account, MemoryUse use) {
  Increment(refused_[Index(use)]);
  Increment(account.refused);
  return Error(absl::StatusCode::kResourceExhausted, "MEMORY_SHORT",
               "the server is short of memory, and the tenant holds its share of it; nothing was "
               "started, try again later, or another server",
               {{std::string(kRetryAfterMs), fmt::format("{}", kRetryMs)}});
}

std::int64_t MemoryBudget::MostOfAnother(const Account& account) {
  std::int64_t most = 0;
  for (const AccountPtr& other : Accounts()) {
    if (other.get() != &account) most = std::max(most, other->all.load(kRelaxed));
  }
  return most;
}

void MemoryBudget::EvictFor(Account& account, MemoryUse use, std::int64_t bytes) {
  if (IsCache(use)) {
    const std::int64_t above = account.all.load(kRelaxed) + bytes - MostOfTenant(use);
    if (above > 0) EvictFrom(account, above + limit_ / kExtraEvicted);
  }
  const std::int64_t above = held() + bytes - limit_;
  if (above > 0) EvictLargest(above + limit_ / kExtraEvicted);
}

void MemoryBudget::EvictLargest(std::int64_t bytes) {
  std::vector<std::pair<std::int64_t, AccountPtr>> holders;
  for (AccountPtr& account : Accounts()) {
    const std::int64_t all = account->all.load(kRelaxed);
    if (all > account->fixed.load(kRelaxed)) holders.emplace_back(all, std::move(account));
  }
  std::sort(holders.begin(), holders.end(), std::greater<>());
  for (const auto& [all, account] : holders) {
    if (bytes <= 0) return;
    bytes -= EvictFrom(*account, bytes);
  }
}

std::int64_t MemoryBudget::EvictFrom(Account& account, std::int64_t bytes) {
  const auto now = now_();
  if (now < account.next_eviction) return 0;
  const auto held_for = [&account](MemoryUse use) {
    return account.held[Index(use)].load(kRelaxed);
  };
  std::array<MemoryUse, kCaches.size()> uses = kCaches;
  std::sort(uses.begin(), uses.end(),
            [&](MemoryUse a, MemoryUse b) { return held_for(a) > held_for(b); });
  std::int64_t released = 0;
  for (const MemoryUse use : uses) {
    if (released >= bytes) break;
    const std::int64_t before = held_for(use);
    if (before == 0 || evict_[Index(use)] == nullptr) continue;
    evict_[Index(use)](account.name, bytes - released);
    const std::int64_t less = std::max<std::int64_t>(0, before - held_for(use));
    Increment(evicted_bytes_[Index(use)], static_cast<std::uint64_t>(less));
    released += less;
  }
  if (released < bytes) account.next_eviction = now + kEvictionPause;
  return released;
}

}  // namespace memoryd
