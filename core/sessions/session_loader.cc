#include "core/sessions/session_loader.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/failpoint.h"
#include "core/base/histogram.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/calls/engine_stats.h"
#include "core/calls/executor.h"
#include "core/model/session.h"
#include "core/sessions/freshness.h"
#include "core/sessions/session.h"
#include "core/sessions/session_cache.h"
#include "core/storage/store.h"

namespace memoryd {
namespace {

// Active messages that are read without asking the budget.
constexpr std::int64_t kUnaskedBytes = std::int64_t{1} << 20;
// While a session is read, the store's client library holds its bytes as well.
constexpr std::int64_t kCopies = 2;

}  // namespace

SessionLoader::SessionLoader(Store* store, SessionCache* cache, Executor* executor,
                             EngineStats* stats, MemoryBudget* budget, bool shared,
                             std::int64_t max_active_bytes)
    : store_(*store),
      cache_(*cache),
      executor_(*executor),
      stats_(*stats),
      budget_(*budget),
      max_active_bytes_(max_active_bytes),
      freshness_(shared ? std::make_unique<Freshness>(store) : nullptr) {}

void SessionLoader::WithLoaded(std::shared_ptr<CachedSession> session, bool anew,
                               CachedSession::Waiter done) {
  {
    MutexLock lock(session->mutex);
    if (anew || !session->loaded) {
      const bool next = anew && session->loading;
      (next ? session->waiting_for_next : session->waiting).push_back(std::move(done));
      if (!session->loading) {
        session->loading = true;
        Load(session);
      }
      return;
    }
  }
  done.done(absl::OkStatus());
}

bool SessionLoader::DropEnded(CachedSession& session) {
  std::vector<CachedSession::Waiter> waiting;
  {
    MutexLock lock(session.mutex);
    waiting.swap(session.waiting);
  }
  const auto has_ended = [this](const CachedSession::Waiter& waiter) {
    if (!waiter.has_ended) return false;
    try {
      return waiter.has_ended();
    } catch (...) {
      // It has, and could not say so. The others must not wait in vain.
      Increment(stats_.exceptions);
      return true;
    }
  };
  waiting.erase(std::remove_if(waiting.begin(), waiting.end(), has_ended), waiting.end());
  MutexLock lock(session.mutex);
  // What came meanwhile, mostly nothing, goes behind.
  waiting.swap(session.waiting);
  session.waiting.insert(session.waiting.end(), std::make_move_iterator(waiting.begin()),
                         std::make_move_iterator(waiting.end()));
  // The load that begins now is the next one of those that came during the last.
  if (session.waiting.empty()) session.waiting.swap(session.waiting_for_next);
  session.loading = !session.waiting.empty();
  return session.loading;
}

absl::StatusOr<std::optional<LoadedSession>> SessionLoader::Read(const SessionKey& key,
                                                                 MemoryBudget::Hold& memory) {
  std::int64_t allowed = std::min(kUnaskedBytes, max_active_bytes_);
  for (;;) {
    MEMORYD_ASSIGN_OR_RETURN(std::optional<LoadedSession> loaded, store_.LoadSession(key, allowed));
    const std::int64_t needed = loaded.has_value() ? loaded->too_large.value_or(0) : 0;
    if (needed <= allowed || needed > max_active_bytes_) return loaded;
    // Other servers may add to it before it is read.
    allowed = std::min(needed + kUnaskedBytes, max_active_bytes_);
    memory.Release();
    MEMORYD_ASSIGN_OR_RETURN(memory,
                             budget_.Take(key.tenant, MemoryUse::kSessions, kCopies * allowed));
  }
}

absl::StatusOr<Session> SessionLoader::ReadSession(const SessionKey& key,
                                                   MemoryBudget::Hold& memory) {
  try {
    auto stored = Read(key, memory);
    ReachFailpoint("session_loaded");
    if (!stored.ok()) return Reported(stored.status());
    if (!stored->has_value()) return Session::Absent();
    return Session::FromStore(**std::move(stored));
  } catch (...) {
    Increment(stats_.exceptions);
    return CaughtException();
  }
}

void SessionLoader::Load(const std::shared_ptr<CachedSession>& session) {
  executor_.Submit(session->key.tenant, [this, session] {
    if (!DropEnded(*session)) return;
    Before before;
    {
      MutexLock lock(session->mutex);
      before.forgotten = session->forgotten;
      if (session->loaded) before.revision = session->session.row.revision;
    }
    MemoryBudget::Hold memory;
    absl::StatusOr<Session> loaded = ReadSession(session->key, memory);
    EndLoad(session, before, std::move(loaded), std::move(memory));
  });
}

void SessionLoader::EndLoad(const std::shared_ptr<CachedSession>& session, const Before& before,
                            absl::StatusOr<Session> loaded, MemoryBudget::Hold memory) {
  const absl::Status status = loaded.status();
  std::vector<CachedSession::Waiter> waiting;
  bool again = false;
  std::size_t bytes = 0;
  {
    MutexLock lock(session->mutex);
    Session& cached = session->session;
    // What was read before the session was forgotten proves nothing.
    const bool outdated = session->forgotten != before.forgotten;
    // A commit that ended meanwhile has left something newer than what was read.
    const bool newer = status.ok() && (!session->loaded || cached.row.revision == before.revision ||
                                       loaded->row.revision > cached.row.revision);
    if (newer && !outdated) {
      // Replies of a session that was erased, or another one of the id, are looked up.
      if (loaded->row.generation == cached.row.generation) {
        loaded->recent_requests = std::move(cached.recent_requests);
      }
      loaded->content_bytes += loaded->recent_requests.bytes();
      cached = std::move(*loaded);
      session->loaded = true;
    }
    bytes = cached.ByteSize();
    if (!outdated || !status.ok()) waiting.swap(session->waiting);
    std::move(session->waiting_for_next.begin(), session->waiting_for_next.end(),
              std::back_inserter(session->waiting));
    session->waiting_for_next.clear();
    again = !session->waiting.empty();
    session->loading = again;
  }
  // Counted by the cache from here on.
  memory.Release();
  cache_.Recharge(session, bytes);
  if (again) Load(session);
  for (const CachedSession::Waiter& waiter : waiting) {
    try {
      waiter.done(status);
    } catch (...) {
      // The others must not wait in vain.
      Increment(stats_.exceptions);
    }
  }
}

void SessionLoader::WithCurrent(std::shared_ptr<CachedSession> session,
                                CachedSession::Waiter done) {
  bool loaded = false;
  {
    MutexLock lock(session->mutex);
    loaded = session->loaded;
  }
  if (!loaded) Increment(stats_.cache_misses);
  if (freshness_ == nullptr) {
    if (loaded) Increment(stats_.cache_hits);
    WithLoaded(std::move(session), /*anew=*/false, std::move(done));
    return;
  }
  if (!loaded) {
    WithLoaded(std::move(session), /*anew=*/true, std::move(done));
    return;
  }
  freshness_->Check(session, [this, session, done = std::move(done)](absl::StatusOr<bool> fresh) {
    if (fresh.ok()) Increment(*fresh ? stats_.cache_hits : stats_.cache_stale);
    if (fresh.ok() && !*fresh) {
      WithLoaded(session, /*anew=*/true, done);
    } else {
      done.done(fresh.status());
    }
  });
}

}  // namespace memoryd
