// What callers ask of jobs.
#ifndef MEMORYD_CORE_JOBS_JOB_CALLS_H_
#define MEMORYD_CORE_JOBS_JOB_CALLS_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/calls/calls.h"
#include "core/model/job.h"
#include "core/sessions/session_reader.h"
#include "core/storage/store.h"
#include "core/writes/write.h"
#include "core/writes/write_queue.h"

namespace memoryd {

// Any thread may call; nothing waits. What it is given outlives its calls.
class JobCalls {
 public:
  template <typename T>
  using Done = std::function<void(absl::StatusOr<T>)>;

  JobCalls(Store* store, Calls* calls, SessionReader* reader, WriteQueue* writes)
      : store_(*store), calls_(*calls), reader_(*reader), writes_(*writes) {}

  // Jobs of the session's blocks, in the order of (block, number); the filter's generation is not
  // looked at.
  void List(const SessionKey& key, JobFilter filter, CallEnd end, Done<std::vector<Job>> done);
  // NOT_FOUND `JOB_NOT_FOUND`.
  void Get(JobKey job, CallEnd end, Done<Job> done);
  // Feeds what a job that FAILED or was CANCELLED could not; returns the new job.
  // FAILED_PRECONDITION `JOB_NOT_FAILED`, or `JOB_OBSOLETE` when its messages or its block are
  // gone. `subject`: as WriteRequest has it.
  void Retry(JobKey job, std::string subject, Calls::Deadline deadline, Done<Job> done);
  // Gives the job up; its block goes on with the next one. FAILED_PRECONDITION `JOB_NOT_FIRST` when
  // it has ended, or an earlier one of its block is open. `subject`: as WriteRequest has it.
  void Cancel(JobKey job, std::string subject, Calls::Deadline deadline, Done<Job> done);

 private:
  // Ends `read` with the job that the write names.
  void Submit(WriteRequest write, const std::shared_ptr<ReadCall<Job>>& read, JobKey job);

  Store& store_;
  Calls& calls_;
  SessionReader& reader_;
  WriteQueue& writes_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_JOBS_JOB_CALLS_H_
