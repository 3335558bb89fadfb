#include "core/jobs/job_waiters.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/calls/pending_calls.h"
#include "core/model/job.h"
#include "core/sessions/session_cache.h"
#include "core/writes/write.h"

namespace memoryd {
namespace {

constexpr std::size_t kMaxWaiters = 10'000;

}  // namespace

class JobWaiters::Waiter : public PendingCall {
 public:
  Waiter(const std::vector<JobKey>& jobs, bool one_attempt,
         std::chrono::steady_clock::time_point deadline, Done done)
      : PendingCall(deadline), one_attempt_(one_attempt), done_(std::move(done)) {
    for (const JobKey& job : jobs) open_.push_back({job, JobState::kOpen, {}});
    waiting_for_ = open_.size();
  }

  // True when nothing is left to wait for.
  bool Ended(const JobKey& job, JobState state, const std::string& error) {
    MutexLock lock(mutex_);
    const auto found = std::find_if(open_.begin(), open_.end(),
                                    [&job](const OpenJob& open) { return open.job == job; });
    if (found == open_.end() || over_.contains(job)) return waiting_for_ == 0;
    found->error = error;
    if (state != JobState::kOpen) {
      if (state == JobState::kFailed) {
        found->state = state;
      } else {
        open_.erase(found);
      }
    } else if (!one_attempt_) {
      return false;
    }
    over_.insert(job);
    return --waiting_for_ == 0;
  }
  void Expire() override { Finish(); }
  bool finished() {
    MutexLock lock(mutex_);
    return finished_;
  }
  void Finish() {
    std::vector<OpenJob> open;
    {
      MutexLock lock(mutex_);
      if (finished_) return;
      finished_ = true;
      open = std::move(open_);
    }
    done_(std::move(open));
  }

 private:
  const bool one_attempt_;
  const Done done_;
  Mutex mutex_;
  bool finished_ MEMORYD_GUARDED_BY(mutex_) = false;
  std::vector<OpenJob> open_ MEMORYD_GUARDED_BY(mutex_);
  std::set<JobKey> over_ MEMORYD_GUARDED_BY(mutex_);
  std::size_t waiting_for_ MEMORYD_GUARDED_BY(mutex_) = 0;
};

void JobWaiters::Wait(CachedSession& session, const std::vector<JobKey>& jobs, bool one_attempt,
                      std::chrono::steady_clock::time_point deadline, Done done) {
  auto waiter = std::make_shared<Waiter>(jobs, one_attempt, deadline, std::move(done));
  bool full = false;
  {
    MutexLock lock(mutex_);
    full = closed_ || waiters_.size() >= kMaxWaiters;
    if (!full) {
      for (const JobKey& job : jobs) waiters_.emplace(job, waiter);
    }
  }
  // These jobs had ended before the waiter was added.
  std::vector<JobKey> over;
  {
    MutexLock lock(session.mutex);
    for (const JobKey& job : jobs) {
      const auto state = session.session.blocks.find(job.block);
      if (session.session.row.block_generation != job.generation ||
          state == session.session.blocks.end() || state->second->done >= job.number) {
        over.push_back(job);
      }
    }
  }
  bool finished = jobs.empty() || full;
  for (const JobKey& job : over) finished = waiter->Ended(job, JobState::kDone, {}) || finished;
  pending_->Add(waiter);
  // It may have ended before it was added.
  if (finished) waiter->Finish();
  if (waiter->finished()) pending_->Remove(waiter.get());
}

void JobWaiters::AttemptEnded(const JobKey& job, JobState state, const std::string& error) {
  std::vector<std::shared_ptr<Waiter>> finished;
  {
    MutexLock lock(mutex_);
    auto [waiter, last] = waiters_.equal_range(job);
    while (waiter != last) {
      if (waiter->second->Ended(job, state, error)) finished.push_back(waiter->second);
      // A job that is still open may end at the next attempt.
      waiter = state == JobState::kOpen ? std::next(waiter) : waiters_.erase(waiter);
    }
  }
  for (const std::shared_ptr<Waiter>& waiter : finished) {
    pending_->Remove(waiter.get());
    waiter->Finish();
  }
}

void JobWaiters::Clean() {
  MutexLock lock(mutex_);
  std::erase_if(waiters_, [](const auto& waiter) { return waiter.second->finished(); });
}

void JobWaiters::Close() {
  std::multimap<JobKey, std::shared_ptr<Waiter>> waiters;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    waiters.swap(waiters_);
  }
  for (const auto& [job, waiter] : waiters) {
    pending_->Remove(waiter.get());
    waiter->Finish();
  }
}

}  // namespace memoryd
