// Reads of sessions: calls that go on once their session is as the store has it.
#ifndef MEMORYD_CORE_SESSIONS_SESSION_READER_H_
#define MEMORYD_CORE_SESSIONS_SESSION_READER_H_

#include <functional>
#include <memory>

#include "core/calls/calls.h"
#include "core/calls/executor.h"
#include "core/model/session.h"
#include "core/sessions/session_cache.h"
#include "core/sessions/session_info.h"
#include "core/sessions/session_loader.h"

namespace memoryd {

// Any thread may call any method. What it is given outlives its calls.
class SessionReader {
 public:
  SessionReader(Calls* calls, SessionCache* cache, SessionLoader* loader)
      : calls_(*calls), cache_(*cache), loader_(*loader) {}

  std::shared_ptr<CachedSession> Acquire(const SessionKey& key) { return cache_.Acquire(key); }
  // Whether other servers write to the store too.
  bool shared() const { return loader_.shared(); }

  // Does `work`, which ends `read`, once the session is as the store has it; dropped when nobody
  // waits for the read any more. Ends the read itself where the session can't be had.
  void WithCurrent(const std::shared_ptr<CachedSession>& session,
                   const std::shared_ptr<PendingRead>& read, Executor::Task work);
  // The same by a reader: for what waits, or takes long.
  void RunCurrent(const std::shared_ptr<CachedSession>& session,
                  const std::shared_ptr<PendingRead>& read, Executor::Task task);
  // Does `work`, which ends `read`, once the session in memory has what the store had of it when
  // this was called: so a later read of the session is not older than what was read of the store.
  // At once, or on the committer's thread: `work` must not take long.
  void WhenShown(const std::shared_ptr<CachedSession>& session,
                 const std::shared_ptr<PendingRead>& read, std::function<void()> work);

 private:
  Calls& calls_;
  SessionCache& cache_;
  SessionLoader& loader_;
};

// The session in memory at this instant.
SessionInfo InfoOf(CachedSession& session);

}  // namespace memoryd

#endif  // MEMORYD_CORE_SESSIONS_SESSION_READER_H_
