// The rules of memory: one method per kind of call.
#ifndef MEMORYD_CORE_ENGINE_ENGINE_H_
#define MEMORYD_CORE_ENGINE_ENGINE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/base/random_source.h"
#include "core/base/wall_clock.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/entry_index_cache.h"
#include "core/blocks/worker_blocks.h"
#include "core/calls/calls.h"
#include "core/calls/executor.h"
#include "core/jobs/job_calls.h"
#include "core/jobs/job_runner.h"
#include "core/lifecycle/attached_sessions.h"
#include "core/lifecycle/lifecycle_calls.h"
#include "core/lifecycle/namespace_calls.h"
#include "core/lifecycle/session_expiry.h"
#include "core/lifecycle/sweeper.h"
#include "core/model/session_template.h"
#include "core/reads/context_reader.h"
#include "core/reads/item_reads.h"
#include "core/reads/session_reads.h"
#include "core/recall/query_call.h"
#include "core/recall/recall.h"
#include "core/recall/search_call.h"
#include "core/recall/search_queue.h"
#include "core/recall/update_context_call.h"
#include "core/retrieval/word_vectors.h"
#include "core/sessions/session_blocks.h"
#include "core/sessions/session_cache.h"
#include "core/sessions/session_loader.h"
#include "core/sessions/session_reader.h"
#include "core/sessions/session_touches.h"
#include "core/sessions/session_usage.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"
#include "core/writes/items/item_write_path.h"
#include "core/writes/quotas.h"
#include "core/writes/token_counting.h"
#include "core/writes/token_rules.h"
#include "core/writes/write_path.h"

namespace memoryd {

struct EngineOptions {
  Coherence coherence = Coherence::kShared;
  // Threads that commit, 1 to 16; each owns a share of the sessions.
  int committers = 2;
  // One more commits large writes, so that small ones do not wait behind them. For stores on which
  // a commit does not wait for another.
  bool large_writes_apart = false;
  // Threads for cold loads and pages, 1 to 64.
  int readers = 4;
  // Threads for Query and UpdateContext, 1 to 64. Apart from the readers, since the first search of
  // a large session takes long.
  int searchers = 2;
  // Threads that count the tokens of texts that take long, and by which time tenants share them.
  int counters = 2;
  Executor::Clock counters_clock = &std::chrono::steady_clock::now;
  // Calls that may wait for the store at a time; more are refused with RESOURCE_EXHAUSTED, see
  // Admission.
  std::int64_t max_pending_calls = 4096;
  // Bytes of requests that may wait.
  std::int64_t max_pending_bytes = std::int64_t{64} << 20;
  // Bytes of sessions kept in memory.
  std::size_t cache_bytes = std::size_t{256} << 20;
  // Bytes of active messages that a session may have to be held in memory; see SessionDraft.
  std::int64_t max_active_bytes = std::int64_t{48} << 20;
  // Bytes of search indexes kept in memory.
  std::size_t index_bytes = std::size_t{128} << 20;
  // Null: searches go by words alone.
  std::shared_ptr<const WordVectors> word_vectors;
  // Must outlive the engine.
  const BodyReader* bodies = nullptr;
  // Must outlive the engine, and what `models` and `workers` do for it.
  MemoryBudget* memory = nullptr;
  // What blocks call, and searches; must outlive the engine, and end all calls before it goes. May
  // be null where no session has blocks that call any, nor an embedder.
  ModelDirectory* models = nullptr;
  WorkerBlocks* workers = nullptr;
  // Bytes of vectors kept in memory.
  std::size_t vector_bytes = std::size_t{256} << 20;
  JobSettings jobs;
  // What a tenant may store; null: no tenant has a quota. Called from several threads.
  std::function<Quota(std::string_view tenant)> quota_of;
  // Null: there are no templates, and no session goes by itself unless its caller says so.
  SessionDefaultsLookup defaults_of;
  // How long a Get waits for a block, and a Query for an embedder, and at most half the time it
  // has.
  std::chrono::milliseconds block_timeout{2000};
  // How often what is over is looked for, and purged.
  std::chrono::milliseconds sweep_interval{10'000};
  // Request records, tombstones and jobs that ended are kept this long.
  std::chrono::hours keep_requests{24};
  std::string vocabulary_directory;
  // Both outlive the engine.
  const WallClock* clock = nullptr;
  RandomSource* random = nullptr;
  // For blocks of kind `session`. Called from several threads.
  HandOnEncoder hand_on;
};

// Sessions over a store. Every method may be called from any thread and returns at once; `done`
// runs exactly once, on the calling thread or on one of the engine's. Past its deadline a call that
// still waits for the store ends UNAVAILABLE, but counts as pending until the store lets go of it:
// that is what bounds the queues when the store stalls. A read whose caller is gone ends CANCELLED
// before the store is asked.
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

  // Each call as its folder has it.
  void Submit(WriteRequest request, Write::Done done) {
    writes_.Submit(std::move(request), std::move(done));
  }
  void Get(const SessionKey& key, ContextQuestion question, CallEnd end, Done<Context> done,
           TracePtr trace = nullptr) {
    contexts_.Get(key, std::move(question), std::move(end), std::move(done), std::move(trace));
  }
  void Query(QueryRequest request, CallEnd end, Done<Found> done) {
    StartQuery(&search_environment_, std::move(request), std::move(end), std::move(done));
  }
  void UpdateContext(UpdateContextRequest request, CallEnd end, Done<UpdatedContext> done) {
    StartUpdateContext(&search_environment_, std::move(request), std::move(end), std::move(done));
  }
  WriteQueue& writes() { return writes_; }
  SessionReads& reads() { return reads_; }
  JobCalls& job_calls() { return job_calls_; }
  LifecycleCalls& lifecycle() { return lifecycle_; }
  ItemReads& item_reads() { return item_reads_; }
  NamespaceCalls& namespaces() { return namespaces_; }

  // Asks the store whether it serves, and stops or resumes serving when this server lost or
  // regained the right to. Blocks; call it about once a second from one thread.
  absl::Status CheckStore();

  // Ends every call that waits for the store, UNAVAILABLE.
  void ExpirePending() { calls_.pending().ExpireAll(); }

  // Begins no job from now on, and gives back those that have not ended.
  void StopJobs() { jobs_.Stop(); }

  // Waits until no call is pending, at most until `deadline`; true when none is.
  bool Drain(Deadline deadline) { return calls_.Drain(deadline); }

  SessionCache& cache() { return cache_; }
  JobRunner& jobs() { return jobs_; }
  const BlockStats& block_stats() const { return block_stats_; }
  SessionSearch& search() { return recall_.search(); }
  const EngineStats& stats() const { return stats_; }
  // Calls that wait for the store now, and the bytes of their requests.
  std::int64_t pending_calls() const { return calls_.count(); }
  std::int64_t pending_bytes() const { return calls_.bytes(); }

 private:
  BlockEnvironment MakeBlockEnvironment();
  AttachedSessions::Options AttachedOptions();
  WritePath::Options WriteOptions();
  JobRunner::Options JobOptions();
  LifecycleCalls::Options LifecycleOptions();
  ItemReads::Options ItemReadOptions();
  ItemWritePath::Options ItemWriteOptions();
  NamespaceCalls::Options NamespaceOptions();
  SessionExpiry::Options ExpiryOptions();
  Sweeper::Options SweeperOptions();
  // Has a commit made that stores what models have taken for the session.
  void StoreUsage(const SessionKey& key);

  Store* const store_;
  const EngineOptions options_;
  const TokenRules token_rules_;
  EngineStats stats_;
  SessionCache cache_;
  SessionTouches touches_;
  SessionUsage session_usage_;
  CountedModels models_;
  // What runs threads comes after what those threads use.
  Calls calls_;
  Recall recall_;
  BlockStats block_stats_;
  EntryIndexCache entries_;
  SessionBlocks blocks_;
  JobRunner jobs_;
  std::unique_ptr<Quotas> quotas_;  // Null: no tenant has a quota.
  Executor readers_;
  Executor searchers_;
  Executor counters_;
  TokenCounting counting_;
  SessionLoader loader_;
  SessionReader reader_;
  AttachedSessions attached_;
  SearchQueue search_queue_;
  const SearchEnvironment search_environment_;
  ContextReader contexts_;
  SessionReads reads_;
  JobCalls job_calls_;
  LifecycleCalls lifecycle_;
  WritePath writes_;
  ItemReads item_reads_;
  ItemWritePath item_writes_;
  NamespaceCalls namespaces_;
  SessionExpiry expiry_;
  std::unique_ptr<Sweeper> sweeper_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_ENGINE_ENGINE_H_
