// Who waits for jobs to end.
#ifndef MEMORYD_CORE_JOBS_JOB_WAITERS_H_
#define MEMORYD_CORE_JOBS_JOB_WAITERS_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "core/calls/pending_calls.h"
#include "core/model/job.h"
#include "core/sessions/session_cache.h"
#include "core/writes/write.h"

namespace memoryd {

// Calls whose reply waits for jobs. At most 10,000 of them: who comes then is answered at once.
// Thread-safe; calls nobody under a lock.
class JobWaiters {
 public:
  // Those of the jobs that are open or failed.
  using Done = std::function<void(std::vector<OpenJob>)>;

  // `pending` outlives this.
  explicit JobWaiters(PendingCalls* pending) : pending_(pending) {}
  JobWaiters(const JobWaiters&) = delete;
  JobWaiters& operator=(const JobWaiters&) = delete;

  // Calls done when all of the session's `jobs` have ended, at the latest shortly before
  // `deadline`. `one_attempt`: a failed attempt ends the wait for its job too.
  void Wait(CachedSession& session, const std::vector<JobKey>& jobs, bool one_attempt,
            std::chrono::steady_clock::time_point deadline, Done done) MEMORYD_EXCLUDES(mutex_);

  // An attempt of the job is over. `state` kOpen: the job is not, and `error` says why.
  void AttemptEnded(const JobKey& job, JobState state, const std::string& error)
      MEMORYD_EXCLUDES(mutex_);

  // Drops what its deadline has ended.
  void Clean() MEMORYD_EXCLUDES(mutex_);

  // Ends every wait, also those still to come.
  void Close() MEMORYD_EXCLUDES(mutex_);

 private:
  class Waiter;

  PendingCalls* const pending_;
  Mutex mutex_;
  bool closed_ MEMORYD_GUARDED_BY(mutex_) = false;
  std::multimap<JobKey, std::shared_ptr<Waiter>> waiters_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_JOBS_JOB_WAITERS_H_
