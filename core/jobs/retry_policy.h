// What becomes of a job whose attempt did not succeed.
#ifndef MEMORYD_CORE_JOBS_RETRY_POLICY_H_
#define MEMORYD_CORE_JOBS_RETRY_POLICY_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "core/jobs/job_settings.h"
#include "core/model/job.h"

namespace memoryd {

// An error as Job::last_error has it: its code and its message.
std::string JobErrorText(const absl::Status& status);

// An attempt that a block, a model or the store has ended with an error.
struct FailedAttempt {
  std::int64_t attempts = 1;  // Job::attempts, with this one.
  // How many entries it was to embed anew; 0: it was given messages.
  std::size_t entries = 0;
  // EmbedsAnew() of job_input.h.
  bool embeds_anew = false;
};

enum class Verdict : std::uint8_t {
  kTryAgain,
  // No attempt: the job's worker is attached to another server.
  kLeaveToOthers,
  // No attempt: the job's tenant may ask no model for now.
  kAwaitBudget,
  kGiveUp,
  // The one entry that the model refuses is stored without a vector, so that it does not hold up
  // all others.
  kEndWithoutVector,
};

// How a job goes back to the store; see Store::ReleaseJob().
struct JobRelease {
  std::chrono::milliseconds delay{0};
  std::string stored_error = {};
  std::string shown_error = {};  // For those who wait for the job.
  bool begun = true;             // Counts as an attempt.
};

// Waits, reads and stores nothing. Any thread.
class RetryPolicy {
 public:
  explicit RetryPolicy(const JobSettings& settings) : settings_(settings) {}

  Verdict Judge(const FailedAttempt& attempt, const absl::Status& why) const;

  // `random` is any number. Half of a delay is taken from it, so that jobs which failed or found no
  // room together do not all come again together.
  JobRelease TryAgain(const Job& job, const absl::Status& why, std::uint64_t random) const;
  JobRelease AwaitMemory(const Job& job, const absl::Status& why, std::int64_t now_us,
                         std::uint64_t random) const;
  JobRelease AwaitBudget(const Job& job, const absl::Status& why, std::int64_t now_us) const;
  // `delay` is how long this server leaves the job alone; others may claim it at once.
  static JobRelease LeaveToOthers(const Job& job, const absl::Status& why, std::int64_t now_us);

 private:
  const JobSettings settings_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_JOBS_RETRY_POLICY_H_
