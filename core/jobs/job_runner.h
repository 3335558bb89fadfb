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
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/blocks/block.h"
#include "core/calls/engine_stats.h"
#include "core/calls/executor.h"
#include "core/calls/pending_calls.h"
#include "core/jobs/job_input.h"
#include "core/jobs/job_queue.h"
#include "core/jobs/job_waiters.h"
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

struct JobSettings {
  JobQueue::Limits limits;
  // Attempts before a job is given up; at least 1.
  std::int64_t max_attempts = 12;
  // Until the second attempt; doubles with each, up to `max_retry`. Half of it is random.
  std::chrono::milliseconds first_retry{1000};
  std::chrono::milliseconds max_retry{600'000};
  // How long the jobs of a server that was killed wait for another.
  std::chrono::milliseconds lease_time{30'000};
  std::chrono::milliseconds poll_interval{1000};
  // For one attempt.
  std::chrono::milliseconds attempt_time{120'000};
  // Between two looks at a job whose tenant may ask no model: the shortest and the longest time.
  std::chrono::milliseconds first_budget_wait{2000};
  std::chrono::milliseconds max_budget_wait{60'000};
  // Between two looks whether there is memory for a job: the shortest and the longest time.
  std::chrono::milliseconds first_memory_wait{1000};
  std::chrono::milliseconds max_memory_wait{10'000};
};

// Jobs come from this server's own commits, leased to it already, and from the store: those whose
// server is gone, that are due again, or that found no room. JobQueue says in which order they run.
//
// What a job finds out is stored by a conditional write that counts only if the job is still the
// next one of its block: exactly once, whoever runs it, and never after a Set or Reset.
class JobRunner final : public CommittedJobs {
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
  void StartPolling();

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
  void Poll() MEMORYD_EXCLUDES(mutex_);

  // As Poll(), for those too that were left to the server that their worker is attached to. Any
  // thread.
  void WorkerAttached() MEMORYD_EXCLUDES(mutex_);

  // Starts nothing more, forgets the models' answers still to come, ends every Wait(), and gives
  // back what has not ended. When it returns nothing of this runner touches what the options name,
  // but that a Start() still to come gives its jobs back to the store.
  void Stop() MEMORYD_EXCLUDES(mutex_);

  // Held now, waiting or running.
  std::size_t held() MEMORYD_EXCLUDES(mutex_);

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
  // As Store::ReleaseJob(); `shown_error` is for those who wait for the job.
  void GiveBack(const std::shared_ptr<Attempt>& attempt, std::chrono::milliseconds delay,
                std::string stored_error, std::string shown_error, bool begun);
  // Leaves the job to the server that has its worker.
  void LeaveToOthers(const std::shared_ptr<Attempt>& attempt, const absl::Status& status);
  // The job waits until its tenant may ask models again, which is no attempt.
  void AwaitBudget(const std::shared_ptr<Attempt>& attempt, const absl::Status& status);
  // The job waits until there is memory for it, which is no attempt.
  void AwaitMemory(const std::shared_ptr<Attempt>& attempt, const absl::Status& status);
  // How long until the next look at a job that only waits.
  std::chrono::milliseconds WaitDelay(const Job& job, std::chrono::milliseconds shortest,
                                      std::chrono::milliseconds longest) const;
  // The attempt is over. `state` kOpen: the job is not.
  void Leave(const std::shared_ptr<Attempt>& attempt, JobState state, const std::string& error)
      MEMORYD_EXCLUDES(mutex_);
  std::chrono::milliseconds RetryDelay(std::int64_t attempts) const;
  // Gives back jobs that have not begun, so that no server has to wait until their leases run out.
  // What has ended meanwhile is not touched.
  void Release(const std::set<JobKey>& jobs);
  void Run() MEMORYD_EXCLUDES(mutex_);
  void Claim();
  void Renew();

  const Options options_;
  const std::uint64_t lease_;
  const std::shared_ptr<Link> link_;
  const JobInput input_;
  JobWaiters waiters_;
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ MEMORYD_GUARDED_BY(mutex_) = false;
  bool poll_ MEMORYD_GUARDED_BY(mutex_) = true;
  bool take_over_;  // Only Run() touches it.
  JobQueue queue_ MEMORYD_GUARDED_BY(mutex_);
  int active_ MEMORYD_GUARDED_BY(mutex_) = 0;  // Sections.
  // Jobs whose worker is not attached here, and until when others alone may claim them.
  std::map<JobKey, std::chrono::steady_clock::time_point> elsewhere_ MEMORYD_GUARDED_BY(mutex_);
  // Jobs were given back, or found: the end of one may make the next one of its block claimable.
  bool more_in_store_ MEMORYD_GUARDED_BY(mutex_) = true;
  std::map<JobKey, std::weak_ptr<UsageCount>> counts_ MEMORYD_GUARDED_BY(mutex_);
  std::map<JobKey, JobTrace> traces_ MEMORYD_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_JOBS_JOB_RUNNER_H_
