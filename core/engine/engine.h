// The rules of memory: one method per kind of call.
#ifndef MEMORYD_CORE_ENGINE_ENGINE_H_
#define MEMORYD_CORE_ENGINE_ENGINE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/engine/committer.h"
#include "core/engine/executor.h"
#include "core/engine/freshness.h"
#include "core/engine/page.h"
#include "core/engine/pending_calls.h"
#include "core/engine/session_cache.h"
#include "core/engine/token_rules.h"
#include "core/engine/write.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"

namespace memoryd {

struct EngineOptions {
  Coherence coherence = Coherence::kShared;
  // Threads that commit, 1 to 16; each owns a share of the sessions.
  int committers = 2;
  // Threads for cold loads and pages, 1 to 64.
  int readers = 4;
  // Calls that may wait for the store at a time; more are refused with RESOURCE_EXHAUSTED.
  std::int64_t max_pending_calls = 4096;
  // Bytes of requests that may wait.
  std::int64_t max_pending_bytes = std::int64_t{64} << 20;
  // Bytes of sessions kept in memory.
  std::size_t cache_bytes = std::size_t{256} << 20;
  // Request records and tombstones are kept this long.
  std::chrono::hours keep_requests{24};
  std::string vocabulary_directory;
  // Microseconds since the epoch.
  std::function<std::int64_t()> now_us;
  // Random 64-bit numbers; called from several threads.
  std::function<std::uint64_t()> random;
};

// What a Get returns.
struct Context {
  std::vector<MessagePtr> messages;
  std::int64_t token_count = 0;
  std::int64_t limit = 0;
  std::int64_t over_limit_tokens = 0;
  std::int64_t revision = 0;
  std::uint64_t generation = 0;
};

// Sessions over a store. Every method may be called from any thread and returns at once; `done`
// runs exactly once, on the calling thread or on one of the engine's. Past `deadline` a call that
// still waits for the store ends UNAVAILABLE, but counts as pending until the store lets go of it:
// that is what bounds the queues when the store stalls.
//
// Errors besides those of each RPC: RESOURCE_EXHAUSTED `QUEUE_FULL` (nothing was started),
// UNAVAILABLE `STORE_UNAVAILABLE` (nothing was changed) or `OUTCOME_UNKNOWN`.
class Engine {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  template <typename T>
  using Done = std::function<void(absl::StatusOr<T>)>;

  // `store` must outlive the engine and be migrated.
  Engine(Store* store, EngineOptions options);
  // Finishes what was admitted.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void Submit(WriteRequest request, Write::Done done);
  void Get(const SessionKey& key, Deadline deadline, Done<Context> done);
  void GetSession(const SessionKey& key, Deadline deadline, Done<SessionInfo> done);
  void ReadPage(PageRequest request, Deadline deadline, Done<Page> done);
  // Sessions of the tenant with an id bytewise greater than `after`.
  void ListSessions(std::string tenant, std::string after, std::int64_t max_sessions,
                    Deadline deadline, Done<std::vector<std::pair<std::string, SessionInfo>>> done);

  // Asks the store whether it serves, and stops or resumes serving when this server lost or
  // regained the right to. Blocks; call it about once a second from one thread.
  absl::Status CheckStore();

  // Ends every call that waits for the store, UNAVAILABLE.
  void ExpirePending() { pending_.ExpireAll(); }

  // Waits until no call is pending, at most until `deadline`; true when none is.
  bool Drain(Deadline deadline);

  SessionCache& cache() { return cache_; }

 private:
  template <typename T>
  class Read;

  // A read that will call done, or nullptr when it was refused and done was called.
  template <typename T>
  std::shared_ptr<Read<T>> StartRead(Deadline deadline, Done<T> done);
  static SessionInfo InfoOf(CachedSession& session);
  absl::Status Admit(std::int64_t bytes);
  void Leave(std::int64_t bytes);
  // Calls done once the cached session is loaded and, with several servers, current.
  void WithCurrent(std::shared_ptr<CachedSession> session, CachedSession::Waiter done);
  // Calls done once the session is loaded; by a load that begins from now on if `anew`.
  void WithLoaded(std::shared_ptr<CachedSession> session, bool anew, CachedSession::Waiter done);
  void Load(const std::shared_ptr<CachedSession>& session);
  void CountTokens(Write& write);
  void Enqueue(std::shared_ptr<Write> write);
  void Reload(std::shared_ptr<Write> write);
  void LookUp(const std::shared_ptr<Write>& write,
              const std::optional<SessionDraft::Decision>& otherwise);
  void ReadRows(std::shared_ptr<Read<Page>> read, std::shared_ptr<CachedSession> session,
                PageRequest request, bool again);
  void Sweep();

  Store* const store_;
  const EngineOptions options_;
  const TokenRules token_rules_;
  SessionCache cache_;
  std::atomic<bool> serving_{true};
  std::atomic<std::int64_t> pending_calls_{0};
  std::atomic<std::int64_t> pending_bytes_{0};
  Mutex mutex_;
  CondVar changed_;  // Stopping, or no call pending.
  bool stopping_ MEMORYD_GUARDED_BY(mutex_) = false;
  // What runs threads comes after what those threads use.
  PendingCalls pending_;
  Executor executor_;
  std::unique_ptr<Freshness> freshness_;
  std::vector<std::unique_ptr<Committer>> committers_;
  std::thread sweeper_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_ENGINE_ENGINE_H_
