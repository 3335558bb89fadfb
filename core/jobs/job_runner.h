// Runs the jobs that feed blocks.
#ifndef MEMORYD_CORE_JOBS_JOB_RUNNER_H_
#define MEMORYD_CORE_JOBS_JOB_RUNNER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
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

// Jobs come from this server's own commits, leased to it already, and from the store: those whose
// server is gone, that are due again, or that found no room. JobQueue says in which order they run.
//
// What a job finds out is stored by a conditional write that counts only if the job is still the
// next one of its block: exactly once, whoever runs it, and never after a Set or Reset.
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
    // Outlives the models' answers.
    MemoryBudget* memory = nullptr;
    const SessionBlocks* blocks = nullptr;
    WriteQueue* writes = nullptr;
    std::function<std::int64_t()> now_us;
    std::function<std::uint64_t()> random;
    JobSettings settings;
    // The most bytes that the messages of one job may have.
    std::int64_t max_message_bytes = std::int64_t{96} << 20;
    // No other server uses the store: what others hold is left from before.
    bool take_over = false;
  };

  explicit JobRunner(Options options);
  // Calls Stop(). What it was given to run on may go before it, but only after Stop().
  ~JobRunner() override;
  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;

  // Marks what is this runner's.
  std::uint64_t lease() const override { return lease_; }
  std::chrono::milliseconds lease_time() const override { return options_.settings.lease_time; }
  // Looks for jobs in the store from now on. Once, when what the options name is ready.
  void StartPolling() { claimer_.Start(); }

  bool HasRoom() override MEMORYD_EXCLUDES(mutex_);
  void Start(const std::shared_ptr<CachedSession>& session, std::vector<Job> jobs) override
      MEMORYD_EXCLUDES(mutex_);
  void Count(const std::vector<JobKey>& jobs, const std::shared_ptr<UsageCount>& usage) override
      MEMORYD_EXCLUDES(mutex_);
  void Trace(const std::vector<JobKey>& jobs, const TracePtr& trace) override
      MEMORYD_EXCLUDES(mutex_);
  void Wait(CachedSession& session, const std::vector<JobKey>& jobs, bool one_attempt,
            std::chrono::steady_clock::time_point deadline, JobWaiters::Done done) override;

  // Looks for jobs in the store now rather than at the next interval. Any thread.
  void Poll() { claimer_.Poll(); }

  // As Poll(), for those too that were left to the server that their worker is attached to. Any
  // thread.
  void WorkerAttached() { claimer_.WorkerAttached(); }

  // Starts nothing more, forgets the models' answers still to come, ends every Wait(), and gives
  // back what has not ended. When it returns nothing of this runner touches what the options name,
  // but that a Start() still to come gives its jobs back to the store.
  void Stop() MEMORYD_EXCLUDES(mutex_);

  // Held now, waiting or running.
  std::size_t held() override MEMORYD_EXCLUDES(mutex_);

 private:
  struct Attempt;
  // Of the call that made a job, and until when it is kept if the job does not end here.
  struct JobTrace {
    TracePtr trace;
    std::chrono::steady_clock::time_point until;
  };
  // Answers of models may come when the runner is gone.
  struct Link {
    Mutex mutex;
    JobRunner* runner MEMORYD_GUARDED_BY(mutex) = nullptr;
  };

  // Work of this runner's on somebody's thread; Stop() waits for it.
  class Section {
   public:
    explicit Section(JobRunner& runner);
    ~Section();
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

    // False once the runner stops: there is nothing to be done any more.
    explicit operator bool() const { return entered_; }

   private:
    JobRunner& runner_;
    bool entered_ = false;
  };

  void Pump() MEMORYD_EXCLUDES(mutex_);
  std::shared_ptr<Attempt> TakeNext() MEMORYD_REQUIRES(mutex_);
  void Begin(const std::shared_ptr<Attempt>& attempt);
  // Does the work of an attempt, which fails when it throws.
  template <typename Work>
  void Guarded(const std::shared_ptr<Attempt>& attempt, const Work& work);
  // What the session knows of the job's block. False: the job has no block any more.
  static bool ReadState(Attempt& attempt, FeedRequest& request);
  void Feed(const std::shared_ptr<Attempt>& attempt);
  void AskBlock(const std::shared_ptr<Attempt>& attempt, std::shared_ptr<const Block> block,
                FeedRequest request);
  static JobOutcome OutcomeOf(const Attempt& attempt);
  // Stores the one entry that the job was given as it is.
  void EndWithoutVector(const std::shared_ptr<Attempt>& attempt);
  // Ends a job of which nothing is left.
  void EndUnfed(const std::shared_ptr<Attempt>& attempt);
  void Fed(const std::shared_ptr<Attempt>& attempt, absl::StatusOr<FeedResult> result);
  void Failed(const std::shared_ptr<Attempt>& attempt, const absl::Status& status);
  void End(const std::shared_ptr<Attempt>& attempt, JobOutcome outcome);
  void GiveBack(const std::shared_ptr<Attempt>& attempt, JobRelease release);
  // The job waits until there is memory for it, which is no attempt.
  void AwaitMemory(const std::shared_ptr<Attempt>& attempt, const absl::Status& status);
  // The attempt is over. `state` kOpen: the job is not.
  void Leave(const std::shared_ptr<Attempt>& attempt, JobState state, const std::string& error)
      MEMORYD_EXCLUDES(mutex_);
  // Gives back jobs that have not begun, so that no server has to wait until their leases run out.
  // What has ended meanwhile is not touched.
  void Release(const std::set<JobKey>& jobs);

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
  int active_ MEMORYD_GUARDED_BY(mutex_) = 0;  // Sections.
  std::map<JobKey, std::weak_ptr<UsageCount>> counts_ MEMORYD_GUARDED_BY(mutex_);
  std::map<JobKey, JobTrace> traces_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_JOBS_JOB_RUNNER_H_
