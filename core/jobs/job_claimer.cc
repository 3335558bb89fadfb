#include "core/jobs/job_claimer.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "core/base/histogram.h"
#include "core/base/mutex.h"
#include "core/jobs/job_queue.h"
#include "core/model/job.h"
#include "core/storage/store.h"

namespace memoryd {

JobClaimer::JobClaimer(Options options, Holder* holder)
    : options_(std::move(options)), holder_(holder), take_over_(options_.take_over) {}

JobClaimer::~JobClaimer() { Stop(); }

void JobClaimer::Start() {
  thread_ = std::thread([this] { Run(); });
}

void JobClaimer::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void JobClaimer::Poll() {
  {
    MutexLock lock(mutex_);
    poll_ = true;
  }
  wake_.NotifyOne();
}

void JobClaimer::WorkerAttached() {
  {
    MutexLock lock(mutex_);
    elsewhere_.clear();
  }
  Poll();
}

bool JobClaimer::LeaveToOthers(const JobKey& job, std::chrono::milliseconds delay) {
  MutexLock lock(mutex_);
  if (std::ssize(elsewhere_) >= kMaxSkippedJobs) return false;
  elsewhere_[job] = Clock::now() + delay;
  return true;
}

void JobClaimer::AttemptEnded(bool open) {
  {
    MutexLock lock(mutex_);
    if (open) {
      more_in_store_ = true;
    } else if (more_in_store_) {
      poll_ = true;
    }
  }
  wake_.NotifyOne();
}

bool JobClaimer::AwaitPoll() {
  // Servers that poll at one beat would always find the same jobs first.
  const auto interval = options_.settings.poll_interval;
  const auto half = static_cast<std::uint64_t>(interval.count() / 2 + 1);
  const auto next_poll =
      Clock::now() + interval / 2 + std::chrono::milliseconds(options_.random->Next() % half);
  MutexLock lock(mutex_);
  while (!stopping_ && !poll_) {
    if (!wake_.WaitUntil(mutex_, next_poll)) break;
  }
  poll_ = false;
  return !stopping_;
}

void JobClaimer::Run() {
  auto next_renewal = Clock::now() + options_.settings.lease_time / 3;
  auto next_cleaning = Clock::now();
  while (AwaitPoll()) {
    if (Clock::now() >= next_cleaning) {
      holder_->Clean();
      next_cleaning = Clock::now() + options_.settings.poll_interval;
    }
    try {
      if (Clock::now() >= next_renewal) {
        Renew();
        next_renewal = Clock::now() + options_.settings.lease_time / 3;
      }
      Claim();
    } catch (...) {
      // A job that was claimed but not begun is claimed again when its lease has expired.
      Increment(options_.stats->exceptions);
    }
  }
}

void JobClaimer::Renew() {
  const std::vector<JobKey> jobs = holder_->Held();
  if (jobs.empty()) return;
  // When this fails others may run the jobs too; one of them will count.
  options_.store
      ->RenewJobs(options_.lease, jobs,
                  std::chrono::microseconds(options_.settings.lease_time).count())
      .IgnoreError();
}

void JobClaimer::Claim() {
  const JobQueue::Limits& limits = options_.settings.limits;
  ClaimRequest request;
  request.lease = options_.lease;
  request.lease_us = std::chrono::microseconds(options_.settings.lease_time).count();
  request.take_over = take_over_;
  // Only what can be begun soon: others may have room.
  request.max_jobs =
      std::max<std::int64_t>(0, limits.max_running - static_cast<std::int64_t>(holder_->held()));
  {
    MutexLock lock(mutex_);
    const auto now = Clock::now();
    std::erase_if(elsewhere_, [now](const auto& job) { return job.second <= now; });
  }
  if (request.max_jobs == 0) return;
  request.skip = [this](const JobKey& job) {
    MutexLock lock(mutex_);
    return elsewhere_.contains(job);
  };
  auto jobs = options_.store->ClaimJobs(request);
  if (!jobs.ok()) return;  // The store is away; the next time, then.
  if (std::ssize(*jobs) < request.max_jobs) take_over_ = false;
  {
    MutexLock lock(mutex_);
    more_in_store_ = !jobs->empty();
  }
  for (Job& job : *jobs) {
    if (holder_->HeldOf(job.key.session.tenant) < limits.max_running_of_tenant) {
      holder_->Take(std::move(job));
      continue;
    }
    // Later than those of other tenants.
    const std::chrono::microseconds delay = options_.settings.poll_interval;
    options_.store->ReleaseJob(options_.lease, job.key, delay.count(), {}, {}, /*begun=*/false)
        .IgnoreError();
  }
}

}  // namespace memoryd
