#include "core/recall/index_cache.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>

#include "core/base/histogram.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/model/body_reader.h"
#include "core/model/session.h"
#include "core/recall/searched_session.h"
#include "core/storage/store.h"

namespace memoryd {

IndexCache::IndexCache(Store* store, const BodyReader* bodies, std::size_t max_bytes,
                       MemoryBudget* budget)
    : store_(store), bodies_(bodies), max_bytes_(max_bytes), budget_(budget) {
  budget_->AddCache(MemoryUse::kIndexes, [this](const std::string& tenant, std::int64_t bytes) {
    EvictTenant(tenant, bytes);
  });
}

IndexCache::~IndexCache() { budget_->RemoveCache(MemoryUse::kIndexes); }

IndexCache::Index IndexCache::Open(const SessionKey& key) {
  MutexLock lock(mutex_);
  if (const auto found = entries_.find(key); found != entries_.end()) {
    order_.splice(order_.begin(), order_, found->second);
    return order_.front().index;
  }
  order_.push_front({std::make_shared<SearchedSession>(key, store_, bodies_, budget_)});
  entries_.emplace(key, order_.begin());
  return order_.front().index;
}

void IndexCache::Recharge(const Index& index) {
  const std::size_t bytes = index->ByteSize();
  MutexLock lock(mutex_);
  const auto found = entries_.find(index->key());
  // Evicted meanwhile.
  if (found == entries_.end() || found->second->index != index) return;
  bytes_ = bytes_ - found->second->charged_bytes + bytes;
  found->second->charged_bytes = bytes;
  if (bytes > max_bytes_) Evict(found->second);
  while (bytes_ > max_bytes_ && !order_.empty()) Evict(std::prev(order_.end()));
}

void IndexCache::Drop(Order::iterator place) {
  bytes_ -= place->charged_bytes;
  entries_.erase(place->index->key());
  order_.erase(place);
}

void IndexCache::Evict(Order::iterator place) {
  Drop(place);
  Increment(evictions_);
}

void IndexCache::Forget(const SessionKey& key) {
  MutexLock lock(mutex_);
  if (const auto found = entries_.find(key); found != entries_.end()) Drop(found->second);
}

void IndexCache::EvictTenant(const std::string& tenant, std::int64_t bytes) {
  MutexLock lock(mutex_);
  for (auto place = order_.end(); bytes > 0 && place != order_.begin();) {
    --place;
    // Who searches it keeps it in memory.
    if (place->index.use_count() > 1 || place->index->key().tenant != tenant) continue;
    bytes -= static_cast<std::int64_t>(place->charged_bytes);
    Evict(place++);
  }
}

std::size_t IndexCache::ByteSize() {
  MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace memoryd
