// How jobs run and are tried again.
#ifndef MEMORYD_CORE_JOBS_JOB_SETTINGS_H_
#define MEMORYD_CORE_JOBS_JOB_SETTINGS_H_

#include <chrono>
#include <cstdint>

#include "core/jobs/job_queue.h"

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

}  // namespace memoryd

#endif  // MEMORYD_CORE_JOBS_JOB_SETTINGS_H_
