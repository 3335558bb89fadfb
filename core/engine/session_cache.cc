#include "core/engine/session_cache.h"

namespace memoryd {
namespace {

// Map node, list node and the place itself, besides what the session holds.
constexpr std::size_t kPlaceBytes = sizeof(CachedSession) + 128;
// An evictor looks at no more places than this, so that a shard full of held ones costs little.
constexpr std::size_t kEvictionSteps = 32;

}  // namespace

SessionCache::SessionCache(std::size_t max_bytes)
    : max_bytes_per_shard_(max_bytes / std::tuple_size_v<decltype(shards_)>) {}

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
  session->charged_bytes = kPlaceBytes + key.tenant.size() + key.session.size();
  shard.bytes += session->charged_bytes;
  shard.index.emplace(key, shard.order.begin());
  Evict(shard, max_bytes_per_shard_, kEvictionSteps);
  return session;
}

void SessionCache::Recharge(const std::shared_ptr<CachedSession>& session, std::size_t bytes) {
  Shard& shard = ShardOf(session->key);
  MutexLock lock(shard.mutex);
  shard.bytes -= session->charged_bytes;
  session->charged_bytes =
      kPlaceBytes + session->key.tenant.size() + session->key.session.size() + bytes;
  shard.bytes += session->charged_bytes;
  Evict(shard, max_bytes_per_shard_, kEvictionSteps);
}

void SessionCache::Shrink() {
  for (Shard& shard : shards_) {
    MutexLock lock(shard.mutex);
    Evict(shard, shard.bytes / 2, shard.order.size());
  }
}

void SessionCache::Evict(Shard& shard, std::size_t max_bytes, std::size_t steps) {
  auto candidate = shard.order.end();
  for (std::size_t step = 0;
       step < steps && shard.bytes > max_bytes && candidate != shard.order.begin(); ++step) {
    --candidate;
    // New holders come only through Acquire(), under this lock.
    if (candidate->use_count() > 1) continue;
    shard.bytes -= (*candidate)->charged_bytes;
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
        shard.bytes -= (*place)->charged_bytes;
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
