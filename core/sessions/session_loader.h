// Brings sessions into the cache, and up to date.
#ifndef MEMORYD_CORE_SESSIONS_SESSION_LOADER_H_
#define MEMORYD_CORE_SESSIONS_SESSION_LOADER_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/calls/engine_stats.h"
#include "core/calls/executor.h"
#include "core/sessions/freshness.h"
#include "core/sessions/session_cache.h"
#include "core/storage/store.h"

namespace memoryd {

// A session is loaded once for all who wait for it. Any thread may call; nothing waits on it.
class SessionLoader {
 public:
  // All must outlive it. `shared`: other servers write to the store too. A session with more than
  // `max_active_bytes` of active messages is loaded without them, see Session::whole. A session
  // with more than 1 MiB of them is read once the budget has granted the bytes; if it does not, the
  // load ends RESOURCE_EXHAUSTED `MEMORY_SHORT`.
  SessionLoader(Store* store, SessionCache* cache, Executor* executor, EngineStats* stats,
                MemoryBudget* budget, bool shared, std::int64_t max_active_bytes);

  bool shared() const { return freshness_ != nullptr; }

  // Calls done once the cached session is loaded and, with several servers, current.
  void WithCurrent(std::shared_ptr<CachedSession> session, CachedSession::Waiter done);
  // Calls done once the session is loaded; by a load that begins from now on if `anew`.
  void WithLoaded(std::shared_ptr<CachedSession> session, bool anew, CachedSession::Waiter done);

 private:
  // A cached session when a load of it begins.
  struct Before {
    std::int64_t revision = -1;  // Of what was loaded, if anything.
    std::uint64_t forgotten = 0;
  };

  // Reads the session from the store; `memory` has what the budget has granted for it.
  absl::StatusOr<std::optional<LoadedSession>> Read(const SessionKey& key,
                                                    MemoryBudget::Hold& memory);
  // The same, made ready for the cache.
  absl::StatusOr<Session> ReadSession(const SessionKey& key, MemoryBudget::Hold& memory);
  void Load(const std::shared_ptr<CachedSession>& session);
  // A load has read the session, or failed, since it was as in `before`: caches what was read and
  // calls those who waited.
  void EndLoad(const std::shared_ptr<CachedSession>& session, const Before& before,
               absl::StatusOr<Session> loaded, MemoryBudget::Hold memory);
  // Drops those that wait for the session and need it no more. False when nobody is left: then it
  // is not loaded.
  bool DropEnded(CachedSession& session);

  Store& store_;
  SessionCache& cache_;
  Executor& executor_;
  EngineStats& stats_;
  MemoryBudget& budget_;
  const std::int64_t max_active_bytes_;
  const std::unique_ptr<Freshness> freshness_;  // Null when this server alone writes.
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_SESSIONS_SESSION_LOADER_H_
