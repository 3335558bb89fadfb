// Finds jobs in the store that no server runs.
#ifndef MEMORYD_CORE_JOBS_JOB_CLAIMER_H_
#define MEMORYD_CORE_JOBS_JOB_CLAIMER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/random_source.h"
#include "core/calls/engine_stats.h"
#include "core/jobs/job_settings.h"
#include "core/model/job.h"
#include "core/storage/store.h"

namespace memoryd {

// Claims jobs once an interval, or as long as there are more, and renews the leases of those that
// this server holds. Both on one thread of its own; any thread may call the rest.
class JobClaimer {
 public:
  // The jobs that this server holds, waiting or running. Called under no lock of the claimer's.
  class Holder {
   public:
    virtual ~Holder() = default;

    virtual std::vector<JobKey> Held() = 0;
    virtual std::size_t held() = 0;
    virtual std::int64_t HeldOf(const std::string& tenant) = 0;
    // Takes in a job that was claimed.
    virtual void Take(Job job) = 0;
    // Once an interval, to drop what is out of date.
    virtual void Clean() = 0;
  };

  struct Options {
    Store* store = nullptr;
    EngineStats* stats = nullptr;
    RandomSource* random = nullptr;
    JobSettings settings;
    // Marks what is this server's.
    std::uint64_t lease = 0;
    // No other server uses the store: what others hold is left from before.
    bool take_over = false;
  };

  // `holder`, and what the options name, outlive the thread.
  JobClaimer(Options options, Holder* holder);
  ~JobClaimer();
  JobClaimer(const JobClaimer&) = delete;
  JobClaimer& operator=(const JobClaimer&) = delete;

  // Starts the thread. Once.
  void Start();
  // Ends the thread. What it has claimed by then has been taken in.
  void Stop() MEMORYD_EXCLUDES(mutex_);

  // Claims now rather than at the next interval.
  void Poll() MEMORYD_EXCLUDES(mutex_);
  // As Poll(), for those too that were left to others.
  void WorkerAttached() MEMORYD_EXCLUDES(mutex_);
  // Claims the job not for so long, for others to do so. False when there are too many such jobs.
  bool LeaveToOthers(const JobKey& job, std::chrono::milliseconds delay) MEMORYD_EXCLUDES(mutex_);
  // An attempt is over. `open`: its job is not, and went back to the store. The end of a job may
  // make the next one of its block claimable.
  void AttemptEnded(bool open) MEMORYD_EXCLUDES(mutex_);

  // What the thread does at each interval, and three times in the time of a lease.
  void Claim() MEMORYD_EXCLUDES(mutex_);
  void Renew();

 private:
  using Clock = std::chrono::steady_clock;

  void Run() MEMORYD_EXCLUDES(mutex_);
  // False: the claimer stops.
  bool AwaitPoll() MEMORYD_EXCLUDES(mutex_);

  const Options options_;
  Holder* const holder_;
  bool take_over_;  // Only Claim() touches it.
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ MEMORYD_GUARDED_BY(mutex_) = false;
  bool poll_ MEMORYD_GUARDED_BY(mutex_) = true;
  // Jobs were given back, or found, so there may be more.
  bool more_in_store_ MEMORYD_GUARDED_BY(mutex_) = true;
  // Jobs whose worker is not attached here, and until when others alone may claim them.
  std::map<JobKey, Clock::time_point> elsewhere_ MEMORYD_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_JOBS_JOB_CLAIMER_H_
