// Reads that put off when their sessions expire.
#ifndef MEMORYD_CORE_SESSIONS_SESSION_TOUCHES_H_
#define MEMORYD_CORE_SESSIONS_SESSION_TOUCHES_H_

#include <cstdint>
#include <unordered_map>
#include <utility>

#include "core/base/mutex.h"
#include "core/base/wall_clock.h"
#include "core/calls/engine_stats.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/sessions/session_cache.h"
#include "core/storage/store.h"

namespace memoryd {

// Any thread may call any method. What it is given outlives it. At most 100,000 sessions wait to be
// stored; reads of others are counted as lost.
class SessionTouches {
 public:
  SessionTouches(Store* store, SessionCache* cache, EngineStats* stats, const WallClock* clock)
      : store_(*store), cache_(*cache), stats_(*stats), clock_(clock) {}

  // The session was read. Costs a look at the configuration where that does not count.
  void NoteRead(const SessionKey& key, const SessionRow& row, const SessionConfig& config) {
    if (config.retention.refresh_on_read && row.expire_us > 0) Touch(key, row, config.retention);
  }

  // Stores what was noted; what could not be stored stays noted. Blocks.
  void Flush() MEMORYD_EXCLUDES(mutex_);

  // Whether a read of the session is noted and not yet stored.
  bool IsTouched(const SessionKey& key, std::uint64_t generation) MEMORYD_EXCLUDES(mutex_);

 private:
  void Touch(const SessionKey& key, const SessionRow& row, const Retention& retention)
      MEMORYD_EXCLUDES(mutex_);

  Store& store_;
  SessionCache& cache_;
  EngineStats& stats_;
  const WallClock* const clock_;
  Mutex mutex_;
  std::unordered_map<SessionKey, SessionTouch, SessionKeyHash> touches_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_SESSIONS_SESSION_TOUCHES_H_
