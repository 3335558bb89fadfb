// Runs the jobs that feed blocks.
#ifndef MEMORYD_CORE_JOBS_JOB_RUNNER_H_
#define MEMORYD_CORE_JOBS_JOB_RUNNER_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/base/random_source.h"
#include "core/base/wall_clock.h"
#include "core/blocks/block.h"
#include "core/calls/engine_stats.h"
#include "core/calls/executor.h"
#include "core/calls/pending_calls.h"
#include "core/jobs/job_claimer.h"
#include "core/jobs/job_input.h"
#include "core/jobs/job_queue.h"
#include "core/jobs/job_settings.h"
#include "core/jobs/job_waiters.h"
#include "core/jobs/retry_policy.h"
#include "core/model/trace_context.h"
#include "core/model/usage_count.h"
#include "core/sessions/session_blocks.h"
#include "core/sessions/session_cache.h"
#include "core/sessions/session_loader.h"
#include "core/storage/store.h"
#include "core/writes/committed_jobs.h"
#include "core/writes/write.h"
#include "core/writes/write_queue.h"

namespace memoryd {

// A job feeds one block some messages of its session. The runner holds jobs from two sources:
//   - commits of this server, which lease their new jobs to it;
//   - the store, where JobClaimer finds jobs whose lease has run out, that are due for another
//     attempt, or that no server had room for.
// JobQueue decides in which order they run. RetryPolicy decides what follows a failed attempt.
//
// The result of a job is stored by a conditional write. The write succeeds only if the job is still
// the next one of its block. So each result is stored exactly once, even if two servers run the
// job, and never after a Set or Reset.
//
// Any thread may call any method.
class JobRunner final : public CommittedJobs, private JobClaimer::Holder {
 public:
  struct Options {
    Store* store = nullptr;
    SessionCache* cache = nullptr;
    SessionLoader* loader = nullptr;
    Executor* executor = nullptr;
    PendingCalls* pending = nullptr;
    EngineStats* stats = nullptr;
    const BodyReader* bodies = nullptr;
    // Must outlive the models' answers, which may come after the runner is destroyed.
    MemoryBudget* memory = nullptr;
    const SessionBlocks* blocks = nullptr;
    WriteQueue* writes = nullptr;
    const WallClock* clock = nullptr;
    RandomSource* random = nullptr;
    JobSettings settings;
    // The most bytes that the messages of one job may have. A job without room in the memory budget
    // waits for it.
    std::int64_t max_message_bytes = std::int64_t{96} << 20;
    // Whether this server alone uses the store. Then leases of other servers are left over from an
    // earlier process, and their jobs are claimed at once.
    bool take_over = false;
  };

  explicit JobRunner(Options options);
  // Calls Stop(). After Stop() the objects of the options may be destroyed before the runner.
  ~JobRunner() override;
  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;

  // The id of this runner's leases: random, never 0.
  std::uint64_t lease() const override { return lease_; }
  std::chrono::milliseconds lease_time() const override { return options_.settings.lease_time; }
  // Starts the thread that looks for jobs in the store. Call it once, when the objects of the
  // options are ready.
  void StartPolling() { claimer_.Start(); }

  // CommittedJobs.
  bool HasRoom() override MEMORYD_EXCLUDES(mutex_);
  void Start(const std::shared_ptr<CachedSession>& session, std::vector<Job> jobs) override
      MEMORYD_EXCLUDES(mutex_);
  void Count(const std::vector<JobKey>& jobs, const std::shared_ptr<UsageCount>& usage) override
      MEMORYD_EXCLUDES(mutex_);
  void Trace(const std::vector<JobKey>& jobs, const TracePtr& trace) override
      MEMORYD_EXCLUDES(mutex_);
  void Wait(CachedSession& session, const std::vector<JobKey>& jobs, bool one_attempt,
            std::chrono::steady_clock::time_point deadline, JobWaiters::Done done) override;

  // Looks for jobs in the store now instead of at the next interval.
  void Poll() { claimer_.Poll(); }

  // To be called when a worker attaches to this server. Like Poll(), and also claims the jobs that
  // this server had left to others because their worker was not attached here.
  void WorkerAttached() { claimer_.WorkerAttached(); }

  // Starts no more jobs, ignores later answers of models, ends every Wait(), and returns the jobs
  // that have not ended to the store. Blocks until the runner's work on all threads has ended.
  // Afterwards the runner uses no object of the options. One exception: a later Start() returns its
  // jobs to the store.
  void Stop() MEMORYD_EXCLUDES(mutex_);

  // The number of jobs that this server holds, waiting or running.
  std::size_t held() override MEMORYD_EXCLUDES(mutex_);

 private:
  // One run of a job.
  struct Attempt;
  // The trace of the call that made a job. It is dropped when the job ends here, at the latest at
  // `until`.
  struct JobTrace {
    TracePtr trace;
    std::chrono::steady_clock::time_point until;
  };
  // How a model's answer reaches the runner. `runner` is null after Stop(), because answers may
  // come after the runner is destroyed.
  struct Link {
    Mutex mutex;
    JobRunner* runner MEMORYD_GUARDED_BY(mutex) = nullptr;
  };

  // A piece of the runner's work on any thread. Stop() waits until no section is left.
  class Section {
   public:
    explicit Section(JobRunner& runner);
    ~Section();
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

    // False once the runner stops. The caller then returns without doing its work.
    explicit operator bool() const { return entered_; }

   private:
    JobRunner& runner_;
    bool entered_ = false;
  };

  // An attempt goes through Begin(), Feed(), AskBlock() and Fed(). End() stores its result, or
  // GiveBack() returns the job to the store. Leave() is the last step of every attempt.

  // Begins every job that may run now.
  void Pump() MEMORYD_EXCLUDES(mutex_);
  std::shared_ptr<Attempt> TakeNext() MEMORYD_REQUIRES(mutex_);
  // Brings the session up to date with the store, then runs Feed() on the executor.
  void Begin(const std::shared_ptr<Attempt>& attempt);
  // Runs `work`. The attempt fails if it throws.
  template <typename Work>
  void Guarded(const std::shared_ptr<Attempt>& attempt, const Work& work);
  // Reads the block's state from the session into both. False if the job's block no longer exists.
  static bool ReadState(Attempt& attempt, FeedRequest& request);
  void Feed(const std::shared_ptr<Attempt>& attempt);
  void AskBlock(const std::shared_ptr<Attempt>& attempt, std::shared_ptr<const Block> block,
                FeedRequest request);
  static JobOutcome OutcomeOf(const Attempt& attempt);
  // Ends a job whose only entry the embedder refuses: stores the entry without a vector.
  void EndWithoutVector(const std::shared_ptr<Attempt>& attempt);
  // Ends a job whose messages and entries have all been removed.
  void EndUnfed(const std::shared_ptr<Attempt>& attempt);
  void Fed(const std::shared_ptr<Attempt>& attempt, absl::StatusOr<FeedResult> result);
  void Failed(const std::shared_ptr<Attempt>& attempt, const absl::Status& status);
  void End(const std::shared_ptr<Attempt>& attempt, JobOutcome outcome);
  void GiveBack(const std::shared_ptr<Attempt>& attempt, JobRelease release);
  // Returns the job to the store until there is memory for it. This does not count as an attempt.
  void AwaitMemory(const std::shared_ptr<Attempt>& attempt, const absl::Status& status);
  // The attempt has ended. With `state` kOpen the job has not, and `error` says why.
  void Leave(const std::shared_ptr<Attempt>& attempt, JobState state, const std::string& error)
      MEMORYD_EXCLUDES(mutex_);
  // Returns jobs to the store when the runner stops, so that no server has to wait for the end of
  // their leases. Jobs that have ended meanwhile stay as they are.
  void Release(const std::set<JobKey>& jobs);

  // JobClaimer::Holder.
  std::vector<JobKey> Held() override MEMORYD_EXCLUDES(mutex_);
  std::int64_t HeldOf(const std::string& tenant) override MEMORYD_EXCLUDES(mutex_);
  void Take(Job job) override MEMORYD_EXCLUDES(mutex_);
  void Clean() override MEMORYD_EXCLUDES(mutex_);

  const Options options_;
  const std::uint64_t lease_;
  const std::shared_ptr<Link> link_;
  const JobInput input_;
  const RetryPolicy retry_;
  JobWaiters waiters_;
  JobClaimer claimer_;
  Mutex mutex_;
  CondVar idle_;  // No section is left.
  bool stopping_ MEMORYD_GUARDED_BY(mutex_) = false;
  JobQueue queue_ MEMORYD_GUARDED_BY(mutex_);
  int active_ MEMORYD_GUARDED_BY(mutex_) = 0;  // Number of sections.
  std::map<JobKey, std::weak_ptr<UsageCount>> counts_ MEMORYD_GUARDED_BY(mutex_);
  std::map<JobKey, JobTrace> traces_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_JOBS_JOB_RUNNER_H_
