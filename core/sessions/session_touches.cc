#include "core/sessions/session_touches.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/histogram.h"
#include "core/base/mutex.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/sessions/session_cache.h"

namespace memoryd {
namespace {

// Sessions that were read and are not stored as such yet; more than that are not noted.
constexpr std::size_t kMaxTouches = 100'000;
constexpr std::size_t kTouchesAtOnce = 256;

}  // namespace

void SessionTouches::Touch(const SessionKey& key, const SessionRow& row,
                           const Retention& retention) {
  const std::int64_t expire_us = retention.ExpiryAt(clock_->NowUs());
  if (expire_us <= row.expire_us) return;
  MutexLock lock(mutex_);
  const auto found = touches_.find(key);
  if (found != touches_.end()) {
    if (found->second.generation != row.generation) {
      found->second = {key, row.generation, expire_us};
    } else {
      found->second.expire_us = std::max(found->second.expire_us, expire_us);
    }
  } else if (touches_.size() < kMaxTouches) {
    touches_.emplace(key, SessionTouch{key, row.generation, expire_us});
  } else {
    Increment(stats_.lost_touches);
  }
}

bool SessionTouches::IsTouched(const SessionKey& key, std::uint64_t generation) {
  MutexLock lock(mutex_);
  const auto found = touches_.find(key);
  return found != touches_.end() && found->second.generation == generation;
}

void SessionTouches::Flush() {
  std::unordered_map<SessionKey, SessionTouch, SessionKeyHash> touches;
  {
    MutexLock lock(mutex_);
    touches.swap(touches_);
  }
  if (touches.empty()) return;
  std::vector<SessionTouch> left;
  left.reserve(touches.size());
  for (auto& [key, touch] : touches) left.push_back(std::move(touch));
  // In one order, whoever else does this.
  std::sort(left.begin(), left.end(),
            [](const SessionTouch& a, const SessionTouch& b) { return a.key < b.key; });
  for (std::span<const SessionTouch> rest(left); !rest.empty();) {
    const std::span<const SessionTouch> some = rest.first(std::min(kTouchesAtOnce, rest.size()));
    if (!store_.TouchSessions(some).ok()) {
      MutexLock lock(mutex_);
      for (const SessionTouch& touch : rest) touches_.try_emplace(touch.key, touch);
      return;
    }
    for (const SessionTouch& touch : some) {
      const std::shared_ptr<CachedSession> cached = cache_.Acquire(touch.key);
      CachedSession& place = *cached;
      MutexLock lock(place.mutex);
      SessionRow& row = place.session.row;
      if (place.loaded && row.generation == touch.generation && row.expire_us > 0) {
        row.expire_us = std::max(row.expire_us, touch.expire_us);
      }
    }
    rest = rest.subspan(some.size());
  }
}

}  // namespace memoryd
