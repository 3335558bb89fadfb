// Who runs the jobs that commits make.
#ifndef MEMORYD_CORE_WRITES_COMMITTED_JOBS_H_
#define MEMORYD_CORE_WRITES_COMMITTED_JOBS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/model/job.h"
#include "core/model/trace_context.h"
#include "core/model/usage_count.h"
#include "core/sessions/session_cache.h"
#include "core/writes/write.h"

namespace memoryd {

// Any thread; nothing waits.
class CommittedJobs {
 public:
  virtual ~CommittedJobs() = default;

  // Whether jobs of a commit under way may be leased to this server.
  virtual bool HasRoom() = 0;
  // Marks them as this server's, for so long.
  virtual std::uint64_t lease() const = 0;
  virtual std::chrono::milliseconds lease_time() const = 0;

  // Runs jobs that were just committed and leased to this server; in the order made.
  virtual void Start(const std::shared_ptr<CachedSession>& session, std::vector<Job> jobs) = 0;

  // Counts in `usage`, as long as that lives, what further attempts of the jobs ask of models.
  virtual void Count(const std::vector<JobKey>& jobs, const std::shared_ptr<UsageCount>& usage) = 0;

  // Has attempts of the jobs on this server, for an hour at most, go on with the trace of the call
  // that made them.
  virtual void Trace(const std::vector<JobKey>& jobs, const TracePtr& trace) = 0;

  // Calls done with those of the session's `jobs` that are open or failed when all have ended, at
  // the latest shortly before `deadline`. `one_attempt`: a failed attempt ends the wait for its job
  // too.
  virtual void Wait(CachedSession& session, const std::vector<JobKey>& jobs, bool one_attempt,
                    std::chrono::steady_clock::time_point deadline,
                    std::function<void(std::vector<OpenJob>)> done) = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_COMMITTED_JOBS_H_
