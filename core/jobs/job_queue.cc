#include "core/jobs/job_queue.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/blocks/embedding_state.h"
#include "core/model/job.h"
#include "core/model/session.h"

namespace memoryd {
namespace {

bool Embeds(const JobKey& job) { return job.block == kRetrievalBlock; }

}  // namespace

bool JobQueue::SessionJobs::FeedsBlock() const {
  return std::any_of(running.begin(), running.end(),
                     [](const auto& job) { return job.second != kRetrievalBlock; });
}

void JobQueue::Queue(const SessionKey& session, SessionJobs& jobs) {
  if (jobs.queued || closed_) return;
  jobs.queued = true;
  ready_.push_back(session);
}

void JobQueue::Hold(const SessionKey& session, std::vector<Job> jobs, bool in_order) {
  SessionJobs& of_session = sessions_[session];
  of_session.in_order = in_order;
  for (Job& job : jobs) {
    if (!held_.insert(job.key).second) continue;
    ++held_of_tenant_[session.tenant];
    of_session.waiting.push_back(std::move(job));
  }
  Queue(session, of_session);
}

void JobQueue::Unhold(const JobKey& job) {
  if (held_.erase(job) == 0) return;
  const auto of_tenant = held_of_tenant_.find(job.session.tenant);
  if (--of_tenant->second == 0) held_of_tenant_.erase(of_tenant);
}

std::set<JobKey> JobQueue::Close() {
  closed_ = true;
  ready_.clear();
  held_of_tenant_.clear();
  std::set<JobKey> held;
  held.swap(held_);
  return held;
}

int JobQueue::HeldOf(const std::string& tenant) const {
  const auto found = held_of_tenant_.find(tenant);
  return found == held_of_tenant_.end() ? 0 : found->second;
}

bool JobQueue::MayRun(const std::string& tenant, bool embedding) const {
  const auto found = running_of_tenant_.find(tenant);
  const Running of_tenant = found == running_of_tenant_.end() ? Running() : found->second;
  const auto fits = [embedding](const Running& running, int most) {
    return running.all < most && (!embedding || running.embedding < std::max(1, most / 2));
  };
  return fits(running_, limits_.max_running) && fits(of_tenant, limits_.max_running_of_tenant);
}

std::optional<Job> JobQueue::TakeNext() {
  for (std::size_t tries = ready_.size(); tries > 0 && running_.all < limits_.max_running;
       --tries) {
    const SessionKey key = std::move(ready_.front());
    ready_.pop_front();
    SessionJobs& jobs = sessions_.at(key);
    jobs.queued = false;
    const bool may_feed = MayRun(key.tenant, /*embedding=*/false);
    const bool may_embed = MayRun(key.tenant, /*embedding=*/true);
    bool lacks_room = false;
    const auto found =
        std::find_if(jobs.waiting.begin(), jobs.waiting.end(), [&](const Job& waiting) {
          const bool embeds = Embeds(waiting.key);
          if (jobs.Runs(waiting.key) || (jobs.in_order && !embeds && jobs.FeedsBlock())) {
            return false;
          }
          const bool has_room = embeds ? may_embed : may_feed;
          lacks_room = lacks_room || !has_room;
          return has_room;
        });
    if (found == jobs.waiting.end()) {
      // One that only waits for its own jobs comes back when one of them leaves.
      if (lacks_room) {
        Queue(key, jobs);
      } else if (jobs.empty()) {
        sessions_.erase(key);
      }
      continue;
    }
    Job job = std::move(*found);
    jobs.waiting.erase(found);
    jobs.running.emplace(job.key.generation, job.key.block);
    for (Running* const running : {&running_, &running_of_tenant_[key.tenant]}) {
      ++running->all;
      if (Embeds(job.key)) ++running->embedding;
    }
    Queue(key, jobs);
    return job;
  }
  return std::nullopt;
}

void JobQueue::Leave(const JobKey& job) {
  Running& of_tenant = running_of_tenant_[job.session.tenant];
  for (Running* const running : {&running_, &of_tenant}) {
    --running->all;
    if (Embeds(job)) --running->embedding;
  }
  if (of_tenant.all == 0) running_of_tenant_.erase(job.session.tenant);
  const auto found = sessions_.find(job.session);
  if (found == sessions_.end()) return;
  found->second.running.erase({job.generation, job.block});
  if (found->second.empty() && !found->second.queued) {
    sessions_.erase(found);
  } else {
    Queue(job.session, found->second);
  }
}

}  // namespace memoryd
