#include "core/jobs/job_calls.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/calls/call_end.h"
#include "core/calls/calls.h"
#include "core/model/job.h"
#include "core/model/session.h"
#include "core/sessions/session_cache.h"
#include "core/sessions/session_reader.h"
#include "core/storage/store.h"
#include "core/writes/commands/jobs.h"
#include "core/writes/write.h"

namespace memoryd {
namespace {

// NOT_FOUND `JOB_NOT_FOUND` when there is none.
absl::StatusOr<Job> FindJob(Store& store, const JobKey& job) {
  MEMORYD_ASSIGN_OR_RETURN(std::optional<Job> found, store.FindJob(job));
  if (!found.has_value()) {
    return Error(absl::StatusCode::kNotFound, "JOB_NOT_FOUND", "there is no such job");
  }
  return *std::move(found);
}

}  // namespace

void JobCalls::List(const SessionKey& key, JobFilter filter, CallEnd end,
                    Done<std::vector<Job>> done) {
  const auto read = calls_.Begin<std::vector<Job>>(key.tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  std::shared_ptr<CachedSession> session = reader_.Acquire(key);
  reader_.RunCurrent(session, read, [this, session, read, filter]() mutable {
    filter.generation = InfoOf(*session).row.block_generation;
    if (filter.generation == 0) {
      read->Finish(std::vector<Job>());
    } else {
      auto jobs = store_.ListJobs(session->key, filter);
      // Else a block that a job has fed might be read as it was before.
      reader_.WhenShown(session, read, [read, jobs = std::move(jobs)] { read->Finish(jobs); });
    }
  });
}

void JobCalls::Get(JobKey job, CallEnd end, Done<Job> done) {
  const auto read = calls_.Begin<Job>(job.session.tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  calls_.Run(job.session.tenant, read, [this, read, job] {
    auto found = FindJob(store_, job);
    reader_.WhenShown(reader_.Acquire(job.session), read,
                      [read, found = std::move(found)] { read->Finish(found); });
  });
}

void JobCalls::Submit(WriteRequest write, const std::shared_ptr<ReadCall<Job>>& read, JobKey job) {
  write.key = job.session;
  write.deadline = read->deadline();
  if (!read->BeginWrite()) return;
  writes_.Submit(std::move(write), [this, read, job = std::move(job)](
                                       const absl::StatusOr<WriteReply>& reply) mutable {
    if (!reply.ok()) {
      read->Finish(reply.status());
      return;
    }
    // The job to return; none: nothing was changed.
    const std::int64_t number = reply->result.job_number;
    if (number == 0) {
      read->Finish(Error(absl::StatusCode::kFailedPrecondition, "JOB_NOT_FIRST",
                         "job_id: the job has ended, or an earlier one of its block is open"));
      return;
    }
    job.number = number;
    calls_.RunAdmitted(job.session.tenant,
                       [this, read, job] { read->Finish(FindJob(store_, job)); });
  });
}

void JobCalls::Retry(JobKey job, std::string subject, Calls::Deadline deadline, Done<Job> done) {
  const auto read = calls_.Begin<Job>(job.session.tenant, deadline, std::move(done));
  if (read == nullptr) return;
  calls_.Run(job.session.tenant, read, [this, read, job, subject = std::move(subject)] {
    auto found = FindJob(store_, job);
    if (!found.ok()) {
      read->Finish(found.status());
    } else if (found->state != JobState::kFailed && found->state != JobState::kCancelled) {
      read->Finish(Error(absl::StatusCode::kFailedPrecondition, "JOB_NOT_FAILED",
                         "job_id: only a job that failed or was cancelled can be retried"));
    } else {
      WriteRequest write;
      write.subject = subject;
      write.command = commands::RetryJob{*std::move(found)};
      Submit(std::move(write), read, job);
    }
  });
}

void JobCalls::Cancel(JobKey job, std::string subject, Calls::Deadline deadline, Done<Job> done) {
  const auto read = calls_.Begin<Job>(job.session.tenant, deadline, std::move(done));
  if (read == nullptr) return;
  calls_.Run(job.session.tenant, read, [this, read, job, subject = std::move(subject)] {
    if (const auto found = FindJob(store_, job); !found.ok()) {
      read->Finish(found.status());
      return;
    }
    WriteRequest write;
    write.subject = subject;
    auto& end = write.command.emplace<commands::EndJob>();
    end.outcome.job = job;
    end.outcome.state = JobState::kCancelled;
    Submit(std::move(write), read, job);
  });
}

}  // namespace memoryd
