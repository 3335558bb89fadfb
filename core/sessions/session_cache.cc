#include "core/sessions/session_cache.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>

#include "core/base/histogram.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/model/session.h"

namespace memoryd {
namespace {

// Map node, list node and the place itself, besides what the session holds.
constexpr std::size_t kPlaceBytes = sizeof(CachedSession) + 128;
// An evictor looks at no more places than this, so that a shard full of held ones costs little.
constexpr std::size_t kEvictionSteps = 32;

std::size_t BytesOf(const CachedSession& session) {
  return static_cast<std::size_t>(session.memory.bytes());
}

}  // namespace

SessionCache::SessionCache(std::size_t max_bytes, MemoryBudget* budget)
    : max_bytes_per_shard_(max_bytes / std::tuple_size_v<decltype(shards_)>), budget_(*budget) {
  budget_.AddCache(MemoryUse::kSessions, [this](const std::string& tenant, std::int64_t bytes) {
    EvictTenant(tenant, bytes);
  });
}

SessionCache::~SessionCache() { budget_.RemoveCache(MemoryUse::kSessions); }

SessionCache::Shard& SessionCache::ShardOf(const SessionKey& key) {
  // The map uses the low bits, the shard the high ones.
  return shards_[(SessionKeyHash()(key) >> 48) % shards_.size()];
}

std::shared_ptr<CachedSession> SessionCache::Acquire(const SessionKey& key) {
  Shard& shard = ShardOf(key);
  MutexLock lock(shard.mutex);
  if (const auto found = shard.index.find(key); found != shard.index.end()) {
    shard.order.splice(shard.order.begin(), shard.order, found->second);
    return *found->second;
  }
  shard.order.push_front(std::make_shared<CachedSession>(key));
  std::shared_ptr<CachedSession> session = shard.order.front();
  session->memory = budget_.Count(
      key.tenant, MemoryUse::kSessions,
      static_cast<std::int64_t>(kPlaceBytes + key.tenant.size() + key.session.size()));
  shard.bytes += BytesOf(*session);
  shard.index.emplace(key, shard.order.begin());
  Evict(shard, max_bytes_per_shard_, kEvictionSteps, nullptr);
  return session;
}

void SessionCache::Recharge(const std::shared_ptr<CachedSession>& session, std::size_t bytes) {
  {
    Shard& shard = ShardOf(session->key);
    MutexLock lock(shard.mutex);
    shard.bytes -= BytesOf(*session);
    session->memory.Resize(static_cast<std::int64_t>(kPlaceBytes + session->key.tenant.size() +
                                                     session->key.session.size() + bytes));
    shard.bytes += BytesOf(*session);
    Evict(shard, max_bytes_per_shard_, kEvictionSteps, nullptr);
  }
  budget_.MakeRoom(session->memory);
}

void SessionCache::EvictTenant(const std::string& tenant, std::int64_t bytes) {
  auto left = static_cast<std::size_t>(bytes);
  // The same from each shard first, so that one does not lose all of the tenant's sessions.
  for (const std::size_t part : {left / shards_.size() + 1, left}) {
    for (Shard& shard : shards_) {
      if (left == 0) return;
      MutexLock lock(shard.mutex);
      const std::size_t before = shard.bytes;
      Evict(shard, before - std::min({before, part, left}), shard.order.size(), &tenant);
      left -= std::min(left, before - shard.bytes);
    }
  }
}

void SessionCache::Evict(Shard& shard, std::size_t max_bytes, std::size_t steps,
                         const std::string* tenant) {
  auto candidate = shard.order.end();
  for (std::size_t step = 0;
       step < steps && shard.bytes > max_bytes && candidate != shard.order.begin(); ++step) {
    --candidate;
    // New holders come only through Acquire(), under this lock.
    if (candidate->use_count() > 1) continue;
    if (tenant != nullptr && (*candidate)->key.tenant != *tenant) continue;
    shard.bytes -= BytesOf(**candidate);
    shard.index.erase((*candidate)->key);
    candidate = shard.order.erase(candidate);
    Increment(evictions_);
  }
}

void SessionCache::Clear() {
  for (Shard& shard : shards_) {
    MutexLock lock(shard.mutex);
    for (auto place = shard.order.begin(); place != shard.order.end();) {
      if (place->use_count() == 1) {
        shard.bytes -= BytesOf(**place);
        shard.index.erase((*place)->key);
        place = shard.order.erase(place);
        continue;
      }
      MutexLock session_lock((*place)->mutex);
      (*place)->Forget();
      ++place;
    }
  }
}

std::size_t SessionCache::SessionCount() {
  std::size_t count = 0;
  for (Shard& shard : shards_) {
    MutexLock lock(shard.mutex);
    count += shard.order.size();
  }
  return count;
}

std::size_t SessionCache::ByteSize() {
  std::size_t bytes = 0;
  for (Shard& shard : shards_) {
    MutexLock lock(shard.mutex);
    bytes += shard.bytes;
  }
  return bytes;
}

}  // namespace memoryd
