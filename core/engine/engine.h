// The rules of memory: one method per kind of call.
#ifndef MEMORYD_CORE_ENGINE_ENGINE_H_
#define MEMORYD_CORE_ENGINE_ENGINE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/reads/context.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/blocks/block.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/entry_index_cache.h"
#include "core/blocks/worker_blocks.h"
#include "core/calls/admission.h"
#include "core/lifecycle/attached_sessions.h"
#include "core/reads/block_view.h"
#include "core/calls/call_end.h"
#include "core/writes/committer.h"
#include "core/calls/engine_stats.h"
#include "core/calls/executor.h"
#include "core/jobs/job_runner.h"
#include "core/reads/page.h"
#include "core/calls/pending_calls.h"
#include "core/writes/quotas.h"
#include "core/recall/recall.h"
#include "core/sessions/session_cache.h"
#include "core/lifecycle/session_expiry.h"
#include "core/lifecycle/session_fork.h"
#include "core/lifecycle/session_import.h"
#include "core/sessions/session_loader.h"
#include "core/sessions/session_usage.h"
#include "core/lifecycle/subject_erase.h"
#include "core/writes/token_counting.h"
#include "core/writes/token_rules.h"
#include "core/writes/write.h"
#include "core/model/session_template.h"
#include "core/retrieval/word_vectors.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"

namespace memoryd {

struct EngineOptions {
  Coherence coherence = Coherence::kShared;
  // Threads that commit, 1 to 16; each owns a share of the sessions.
  int committers = 2;
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
  // Microseconds since the epoch.
  std::function<std::int64_t()> now_us;
  // Random 64-bit numbers; called from several threads.
  std::function<std::uint64_t()> random;
  // For blocks of kind `session`. Called from several threads.
  HandOnEncoder hand_on;
};

struct SessionList {
  std::vector<std::pair<std::string, SessionInfo>> sessions;  // By their ids.
  bool more = false;                                          // There are further ones.
};

// A content, and the session's row that it was found by.
struct ContentView {
  ContentPtr content;
  SessionRow row;
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

  // For kUpdateMessage and kDeleteMessage the message is found first, for kUpdateContent and
  // kDeleteContent the content, for kEditFact the evidence. NOT_FOUND `SESSION_NOT_FOUND`,
  // `MESSAGE_NOT_FOUND` or `CONTENT_NOT_FOUND`, FAILED_PRECONDITION `TOOL_PAIR`.
  void Submit(WriteRequest request, Write::Done done);
  // `input`: what the user is about to say, for blocks to choose by. `trace`: of the call; blocks
  // tell it to whom they ask.
  void Get(const SessionKey& key, std::optional<std::string> input, CallEnd end, Done<Context> done,
           TracePtr trace = nullptr);
  void GetSession(const SessionKey& key, CallEnd end, Done<SessionInfo> done);
  // NOT_FOUND `SESSION_NOT_FOUND` or `CONTENT_NOT_FOUND`.
  void GetContent(const SessionKey& key, std::string content_id, CallEnd end,
                  Done<ContentView> done);
  void ReadPage(PageRequest request, CallEnd end, Done<Page> done);
  void Query(QueryRequest request, CallEnd end, Done<Found> done);
  void UpdateContext(UpdateContextRequest request, CallEnd end, Done<UpdatedContext> done);
  // Jobs of the session's blocks, in the order of (block, number); the filter's generation is not
  // looked at.
  void ListJobs(const SessionKey& key, JobFilter filter, CallEnd end, Done<std::vector<Job>> done);
  // NOT_FOUND `JOB_NOT_FOUND`.
  void GetJob(JobKey job, CallEnd end, Done<Job> done);
  // Feeds what a job that FAILED or was CANCELLED could not; returns the new job.
  // FAILED_PRECONDITION `JOB_NOT_FAILED`, or `JOB_OBSOLETE` when its messages or its block are
  // gone.
  void RetryJob(JobKey job, Deadline deadline, Done<Job> done);
  // Gives the job up; its block goes on with the next one. FAILED_PRECONDITION `JOB_NOT_FIRST` when
  // it has ended, or an earlier one of its block is open.
  void CancelJob(JobKey job, Deadline deadline, Done<Job> done);
  // NOT_FOUND `SESSION_NOT_FOUND` or `BLOCK_NOT_FOUND`. kRetrievalBlock is a block of every session
  // that has an embedder.
  void GetBlock(const SessionKey& key, std::string block, CallEnd end, Done<BlockView> done);
  // As GetBlock(). FAILED_PRECONDITION `BLOCK_HAS_NO_ENTRIES`; ABORTED `SESSION_REPLACED`.
  void ListBlockEntries(EntryPageRequest request, CallEnd end, Done<EntryPage> done);
  // Makes a copy of a session. ALREADY_EXISTS `SESSION_EXISTS`, NOT_FOUND `SESSION_NOT_FOUND` or
  // `MESSAGE_NOT_FOUND`, OUT_OF_RANGE `POSITION_OUT_OF_RANGE`, ABORTED `REVISION_MISMATCH` or
  // `SESSION_REPLACED`, DEADLINE_EXCEEDED `SESSION_TOO_LARGE`.
  void ForkSession(ForkRequest request, Done<ForkReply> done);
  // An import that can be begun; INVALID_ARGUMENT for its configuration. The engine must outlive
  // it.
  absl::StatusOr<std::shared_ptr<SessionImport>> ImportSession(ImportRequest request);
  // Removes all sessions of a subject, and says what went. Ends without an error before the
  // deadline, even where more is left.
  void EraseSubject(EraseRequest request, Done<EraseReceipt> done);
  // Sessions of the tenant, or of one subject unless that is empty, with an id bytewise greater
  // than `after`: as many as some 1 MiB of configurations allow, and at least one.
  void ListSessions(std::string tenant, std::string subject, std::string after,
                    std::int64_t max_sessions, CallEnd end, Done<SessionList> done);

  // Asks the store whether it serves, and stops or resumes serving when this server lost or
  // regained the right to. Blocks; call it about once a second from one thread.
  absl::Status CheckStore();

  // Ends every call that waits for the store, UNAVAILABLE.
  void ExpirePending() { pending_.ExpireAll(); }

  // Begins no job from now on, and gives back those that have not ended.
  void StopJobs() { jobs_->Stop(); }

  // Waits until no call is pending, at most until `deadline`; true when none is.
  bool Drain(Deadline deadline);

  SessionCache& cache() { return cache_; }
  JobRunner& jobs() { return *jobs_; }
  const BlockStats& block_stats() const { return block_stats_; }
  SessionSearch& search() { return recall_.search(); }
  const EngineStats& stats() const { return stats_; }
  // Calls that wait for the store now, and the bytes of their requests.
  std::int64_t pending_calls() const { return admission_.calls(); }
  std::int64_t pending_bytes() const { return admission_.bytes(); }

 private:
  template <typename T>
  class Read;

  // Submits a write that names nothing, or for which that has been found.
  void SubmitFound(WriteRequest request, Write::Done done);
  // Finds the message that the write names and submits it; anew when it has changed by then.
  void FindAndSubmit(const std::shared_ptr<const WriteRequest>& request, const Write::Done& done,
                     int tries);
  // A read that will call done, or nullptr when it was refused and done was called.
  template <typename T>
  std::shared_ptr<Read<T>> StartRead(std::string_view tenant, CallEnd end, Done<T> done,
                                     std::int64_t bytes = 0);
  // Does the work on a call, which ends INTERNAL when it throws.
  template <typename Call, typename Work>
  void Guarded(const std::shared_ptr<Call>& call, const Work& work);
  // Has a reader run `task`, which ends `read`; refuses the read when too many wait.
  template <typename T>
  void SubmitRead(std::string_view tenant, const std::shared_ptr<Read<T>>& read,
                  Executor::Task task);
  // Does `work`, which ends `read`, once the session is as the store has it; dropped when nobody
  // waits for the read any more.
  template <typename T>
  void WithCurrent(const std::shared_ptr<CachedSession>& session,
                   const std::shared_ptr<Read<T>>& read, Executor::Task work);
  // The same by a reader.
  template <typename T>
  void SubmitCurrentRead(const std::shared_ptr<CachedSession>& session,
                         const std::shared_ptr<Read<T>>& read, Executor::Task task);
  // What a Get returns of a session without blocks.
  Context ComposeLive(const Session& session) const;
  static SessionInfo InfoOf(CachedSession& session);
  // OK when the blocks that the session would have after this write can be made.
  absl::Status CheckBlocks(const Write& write) const;
  absl::Status CheckBlocks(const SessionKey& key, const SessionSettings& settings) const;
  // Those of `config`, which is or was the session's.
  absl::StatusOr<std::shared_ptr<const BlockSet>> BlocksOf(
      CachedSession& session, const std::shared_ptr<const SessionConfig>& config) const;
  std::unique_ptr<JobRunner> MakeJobRunner();
  AttachedSessions::Options AttachedOptions();
  // Replies, once the jobs that the write made have ended where it waits for them.
  void FinishWrite(const Write& write, std::string reply, const Write::Done& done);
  void ComposeContext(const std::shared_ptr<CachedSession>& session,
                      const std::optional<std::string>& input, const TracePtr& trace,
                      const std::shared_ptr<Read<Context>>& read);
  // A session's block, and its state at one revision.
  struct BlockAt {
    BlockSettings settings;
    std::int64_t revision = 0;
    std::shared_ptr<const Block> block;
    std::shared_ptr<const BlockState> state;  // Null: never fed.
  };
  absl::StatusOr<BlockAt> FindBlock(CachedSession& session, const std::string& name) const;
  // The block kRetrievalBlock, which stands in no configuration.
  static absl::StatusOr<BlockView> ViewOfEmbeddings(CachedSession& session);
  void ReadEntries(std::shared_ptr<Read<EntryPage>> read, std::shared_ptr<CachedSession> session,
                   EntryPageRequest request, bool again);
  // Has a commit made that stores what models have taken for the session.
  void StoreUsage(const SessionKey& key);
  // Lets go of what is in memory of a session that is no more.
  void ForgetSession(const SessionKey& key);
  void SubmitJobWrite(WriteRequest write, const std::shared_ptr<Read<Job>>& read, JobKey job);
  // `forced`: counts, and is never refused for want of room.
  absl::StatusOr<Admission::Place> Admit(std::string_view tenant, std::int64_t bytes,
                                         bool forced = false);
  // Refuses a write that, behind what waits already, could not be answered in its time.
  absl::Status AdmitInTime(const WriteRequest& request);
  absl::Status QueueFull(Counter& refused);
  // What the write is to be counted with, as far as that is known.
  static std::optional<CountingRules> CountingRulesOf(const Write& write);
  // Counts ahead of the committer: at once where that is cheap, since others wait for this thread.
  void CountAndEnqueue(std::shared_ptr<Write> write);
  // Goes on with the counting where nobody else waits, then enqueues the write.
  void CountApart(const std::shared_ptr<Write>& write, CountingRules rules, CountProgress progress);
  Committer& CommitterOf(const SessionKey& session);
  void Enqueue(std::shared_ptr<Write> write);
  // Archives the oldest messages of the write's session, a piece at a time, until it can be held
  // whole, and enqueues the write then.
  void ArchiveOldest(std::shared_ptr<Write> write);
  void Reload(std::shared_ptr<Write> write);
  void LookUp(const std::shared_ptr<Write>& write,
              const std::optional<SessionDraft::Decision>& otherwise);
  void ReadRows(std::shared_ptr<Read<Page>> read, std::shared_ptr<CachedSession> session,
                PageRequest request, std::shared_ptr<Page> before);
  // Whether the store has a later version of a session that only this engine writes. Blocks.
  bool IsBehindStore(const SessionKey& key, const SessionRow& row) const;
  // Brings the page's total step by step, and finishes the read.
  void CountTotal(const std::shared_ptr<Read<Page>>& read, const std::shared_ptr<Page>& page,
                  const std::shared_ptr<PageTotal>& total);
  // A Query or UpdateContext: the session confirmed, its index brought up in steps, the answer.
  template <typename T, typename Request>
  struct SearchCall;
  template <typename T, typename Request>
  void StartSearch(Request request, CallEnd end, Done<T> done);
  template <typename T, typename Request>
  void BeginSearch(const std::shared_ptr<SearchCall<T, Request>>& call);
  template <typename T, typename Request>
  void QueueStep(const std::shared_ptr<SearchCall<T, Request>>& call);
  template <typename T, typename Request>
  void StepSearch(const std::shared_ptr<SearchCall<T, Request>>& call);
  // Answers, or begins anew when the session was cut meanwhile.
  template <typename T, typename Request>
  void FinishSearch(const std::shared_ptr<SearchCall<T, Request>>& call, absl::StatusOr<T> answer);
  // Brings up the indexes of the sessions that are searched with the one that was asked.
  void PrepareOthers(const std::shared_ptr<SearchCall<Found, QueryRequest>>& call,
                     const std::vector<std::string>& others);
  void SearchWithOthers(const std::shared_ptr<SearchCall<Found, QueryRequest>>& call,
                        const std::vector<PreparedSession>& others);
  absl::StatusOr<Found> AnswerWithOthers(const SearchCall<Found, QueryRequest>& call,
                                         const std::vector<PreparedSession>& others);
  // Has the session's embeddings made anew, where another model answers than made them.
  void NoteEmbedder(const SessionKey& key, const EmbeddingState& state,
                    const EmbeddingSource& embedder);
  // True when the session's embedder is asked what the query means: the call goes on when it has
  // answered. `embeddings` as of SessionSearch::CatchUp().
  bool EmbedQuery(const std::shared_ptr<SearchCall<Found, QueryRequest>>& call,
                  const SessionInfo& info, const BlockState* embeddings);
  // True when the session has blocks of kind `session`, whose other sessions are read: the call
  // goes on when they have been.
  bool ShowOthers(const std::shared_ptr<SearchCall<UpdatedContext, UpdateContextRequest>>& call,
                  const SessionInfo& info);
  // The block kRetrievalBlock of `config`, null where that has no embedder.
  std::shared_ptr<const Block> MakeMessageEmbedder(const SessionConfig& config) const;
  // What the session's stable blocks say, and `shown` by the names of others.
  absl::StatusOr<std::vector<OfferedBlock>> StableBlocks(
      CachedSession& place, const std::map<std::string, BlockContent>& shown) const;
  // What the session's blocks know, where it has any; null for nothing.
  absl::StatusOr<std::shared_ptr<const KnownTexts>> TextsOf(CachedSession& place,
                                                            const SessionSearch::Index& index);
  void QueueSearch(const std::shared_ptr<CachedSession>& session, Executor::Task step);
  void RunSearches(const std::shared_ptr<CachedSession>& session);
  std::unique_ptr<SessionExpiry> MakeExpiry();
  bool IsStopping();
  void Sweep();
  void SweepOnce();

  Store* const store_;
  const EngineOptions options_;
  const TokenRules token_rules_;
  EngineStats stats_;
  SessionCache cache_;
  std::atomic<bool> serving_{true};
  Mutex mutex_;
  CondVar changed_;  // Stopping, or no call pending.
  bool stopping_ MEMORYD_GUARDED_BY(mutex_) = false;
  Admission admission_;
  SessionUsage session_usage_;
  CountedModels models_;
  // What runs threads comes after what those threads use.
  PendingCalls pending_;
  Recall recall_;
  BlockStats block_stats_;
  EntryIndexCache entries_;
  BlockEnvironment block_environment_;
  std::unique_ptr<JobRunner> jobs_;
  std::unique_ptr<Quotas> quotas_;  // Null: no tenant has a quota.
  Executor executor_;
  Executor searchers_;
  Executor counters_;
  TokenCounting counting_;
  SessionLoader loader_;
  AttachedSessions attached_;
  std::unique_ptr<SessionExpiry> expiry_;
  std::vector<std::unique_ptr<Committer>> committers_;
  std::thread sweeper_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_ENGINE_ENGINE_H_
