#include "core/jobs/job_runner.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/failpoint.h"
#include "core/base/histogram.h"
#include "core/base/mutex.h"
#include "core/blocks/block.h"
#include "core/blocks/vector_entry.h"
#include "core/jobs/job_input.h"
#include "core/jobs/retry_policy.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session_config.h"
#include "core/model/trace_context.h"
#include "core/model/usage_count.h"
#include "core/sessions/session_cache.h"
#include "core/writes/commands/jobs.h"
#include "core/writes/write.h"

namespace memoryd {
namespace {

using Clock = std::chrono::steady_clock;

// Jobs held for each that runs; more wait in the store.
constexpr std::size_t kHeldPerRunning = 64;
// Jobs whose trace is kept at a time, and how long, if they don't end here.
constexpr std::size_t kMaxTraces = 10'000;
constexpr std::chrono::hours kTraceTime(1);
// At the end, for jobs that another server would else wait for.
constexpr std::chrono::seconds kGiveBackTime(1);
// For the write that ends a job.
constexpr std::chrono::seconds kEndTime(30);

}  // namespace

struct JobRunner::Attempt {
  Job job;
  std::shared_ptr<UsageCount> usage;
  // Null while it waits for its block: who holds a session keeps it in memory.
  std::shared_ptr<CachedSession> session = nullptr;
  std::shared_ptr<const BlockState> fed = nullptr;  // What the block was given.
  std::int64_t read_revision = 0;                   // The session's, before its messages were read.
  TracePtr trace = nullptr;
  // Of a job that embeds entries anew: those that it was given; and see JobOutcome.
  std::vector<MessagePtr> entries = {};
  std::int64_t entries_to = 0;
};

JobRunner::JobRunner(Options options)
    : options_(std::move(options)),
      lease_(options_.random->Next() | 1U),
      link_(std::make_shared<Link>()),
      input_({options_.store, options_.bodies, options_.memory, options_.max_message_bytes}),
      retry_(options_.settings),
      waiters_(options_.pending),
      claimer_({options_.store, options_.stats, options_.random, options_.settings, lease_,
                options_.take_over},
               this),
      queue_(options_.settings.limits) {
  MutexLock lock(link_->mutex);
  link_->runner = this;
}

JobRunner::~JobRunner() { Stop(); }

JobRunner::Section::Section(JobRunner& runner) : runner_(runner) {
  MutexLock lock(runner_.mutex_);
  if (runner_.stopping_) return;
  ++runner_.active_;
  entered_ = true;
}

JobRunner::Section::~Section() {
  if (!entered_) return;
  // Under the lock: once it is free the runner may be gone.
  MutexLock lock(runner_.mutex_);
  if (--runner_.active_ == 0 && runner_.stopping_) runner_.idle_.NotifyAll();
}

void JobRunner::Stop() {
  {
    MutexLock lock(link_->mutex);
    if (link_->runner == nullptr) return;
    link_->runner = nullptr;
  }
  std::set<JobKey> held;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  claimer_.Stop();
  {
    MutexLock lock(mutex_);
    while (active_ > 0) idle_.Wait(mutex_);
    held = queue_.Close();
  }
  waiters_.Close();
  Release(held);
}

void JobRunner::Release(const std::set<JobKey>& jobs) {
  const auto until = Clock::now() + kGiveBackTime;
  for (const JobKey& job : jobs) {
    if (Clock::now() > until || !options_.store->ReleaseJob(lease_, job, 0, {}, {}, false).ok())
      break;
  }
}

bool JobRunner::HasRoom() {
  MutexLock lock(mutex_);
  const auto running = static_cast<std::size_t>(options_.settings.limits.max_running);
  return !stopping_ && queue_.held().size() < running * kHeldPerRunning;
}

std::vector<JobKey> JobRunner::Held() {
  MutexLock lock(mutex_);
  return {queue_.held().begin(), queue_.held().end()};
}

std::size_t JobRunner::held() {
  MutexLock lock(mutex_);
  return queue_.held().size();
}

std::int64_t JobRunner::HeldOf(const std::string& tenant) {
  MutexLock lock(mutex_);
  return queue_.HeldOf(tenant);
}

void JobRunner::Take(Job job) {
  const std::shared_ptr<CachedSession> session = options_.cache->Acquire(job.key.session);
  std::vector<Job> one;
  one.push_back(std::move(job));
  Start(session, std::move(one));
}

void JobRunner::Clean() {
  {
    MutexLock lock(mutex_);
    const auto now = Clock::now();
    std::erase_if(counts_, [](const auto& count) { return count.second.expired(); });
    std::erase_if(traces_, [now](const auto& trace) { return trace.second.until <= now; });
  }
  waiters_.Clean();
}

void JobRunner::Start(const std::shared_ptr<CachedSession>& session, std::vector<Job> jobs) {
  bool in_order = false;
  {
    MutexLock lock(session->mutex);
    in_order = session->loaded && session->session.config->feed == FeedTime::kBeforeReply;
  }
  const Section section(*this);
  if (!section) {
    // They came while the runner stops, which gives back what it knew of.
    std::set<JobKey> keys;
    for (const Job& job : jobs) keys.insert(job.key);
    Release(keys);
    return;
  }
  {
    MutexLock lock(mutex_);
    queue_.Hold(session->key, std::move(jobs), in_order);
  }
  Pump();
}

void JobRunner::Count(const std::vector<JobKey>& jobs, const std::shared_ptr<UsageCount>& usage) {
  MutexLock lock(mutex_);
  for (const JobKey& job : jobs) counts_.insert_or_assign(job, usage);
}

void JobRunner::Trace(const std::vector<JobKey>& jobs, const TracePtr& trace) {
  const auto until = Clock::now() + kTraceTime;
  MutexLock lock(mutex_);
  for (const JobKey& job : jobs) {
    if (traces_.size() < kMaxTraces) traces_.insert_or_assign(job, JobTrace{trace, until});
  }
}

void JobRunner::Wait(CachedSession& session, const std::vector<JobKey>& jobs, bool one_attempt,
                     Clock::time_point deadline, JobWaiters::Done done) {
  waiters_.Wait(session, jobs, one_attempt, deadline, std::move(done));
}

std::shared_ptr<JobRunner::Attempt> JobRunner::TakeNext() {
  std::optional<Job> job = queue_.TakeNext();
  if (!job.has_value()) return nullptr;
  const auto counts = counts_.find(job->key);
  auto usage =
      std::make_shared<UsageCount>(counts == counts_.end() ? nullptr : counts->second.lock());
  auto attempt = std::make_shared<Attempt>(Attempt{*std::move(job), std::move(usage)});
  const auto trace = traces_.find(attempt->job.key);
  if (trace != traces_.end()) attempt->trace = trace->second.trace;
  return attempt;
}

void JobRunner::Pump() {
  for (;;) {
    std::shared_ptr<Attempt> next;
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
      next = TakeNext();
    }
    if (next == nullptr) return;
    Begin(next);
  }
}

void JobRunner::Begin(const std::shared_ptr<Attempt>& attempt) {
  // Another server may have ended the jobs before this one, or run this very job.
  attempt->session = options_.cache->Acquire(attempt->job.key.session);
  options_.loader->WithCurrent(attempt->session, [this, attempt](const absl::Status& status) {
    const Section section(*this);
    if (!section) return;
    if (ErrorReason(status) == "MEMORY_SHORT") {
      AwaitMemory(attempt, status);
      return;
    }
    if (!status.ok()) {
      Failed(attempt, status);
      return;
    }
    options_.executor->Submit(attempt->job.key.session.tenant, [this, attempt] {
      const Section feeding(*this);
      if (feeding) Guarded(attempt, [&] { Feed(attempt); });
    });
  });
}

template <typename Work>
void JobRunner::Guarded(const std::shared_ptr<Attempt>& attempt, const Work& work) {
  try {
    work();
  } catch (...) {
    Increment(options_.stats->exceptions);
    Failed(attempt, CaughtException());
  }
}

bool JobRunner::ReadState(Attempt& attempt, FeedRequest& request) {
  const JobKey& job = attempt.job.key;
  CachedSession& place = *attempt.session;
  MutexLock lock(place.mutex);
  const auto state = place.session.blocks.find(job.block);
  if (!place.session.exists() || place.session.row.block_generation != job.generation ||
      state == place.session.blocks.end()) {
    return false;
  }
  attempt.fed = state->second;
  attempt.read_revision = place.session.row.revision;
  request.state = *state->second;
  const SessionConfig& config = *place.session.config;
  request.session = {job.session, config.counting.profile, attempt.trace, config.zone()};
  if (config.EmbedsMessages()) {
    request.session.embedder = {config.ranking.embedder_worker, config.ranking.embedder};
  }
  return true;
}

void JobRunner::Feed(const std::shared_ptr<Attempt>& attempt) {
  const Job& job = attempt->job;
  FeedRequest request;
  const std::int64_t done = ReadState(*attempt, request) ? attempt->fed->done : job.key.number;
  if (done >= job.key.number) {
    // It ended elsewhere, or what it belongs to is gone.
    Leave(attempt, JobState::kDone, {});
    return;
  }
  if (done + 1 != job.key.number) {
    GiveBack(attempt, {.begun = false});
    return;
  }
  absl::StatusOr<std::shared_ptr<const Block>> block =
      options_.blocks->FindFed(*attempt->session, job.key.block);
  if (!block.ok()) {
    Failed(attempt, block.status());
    return;
  }
  if (*block == nullptr) {
    JobOutcome outcome;
    outcome.state = JobState::kCancelled;
    End(attempt, std::move(outcome));
    return;
  }
  absl::StatusOr<JobInput::Input> input = input_.Read(job, *attempt->fed);
  if (ErrorReason(input.status()) == "MEMORY_SHORT") {
    AwaitMemory(attempt, input.status());
    return;
  }
  if (!input.ok()) {
    Failed(attempt, input.status());
    return;
  }
  attempt->entries = input->entries;
  attempt->entries_to = input->entries_to;
  if (input->empty()) {
    EndUnfed(attempt);
    return;
  }
  request.messages = std::move(input->messages);
  request.entries = std::move(input->entries);
  request.memory = std::move(input->memory);
  AskBlock(attempt, *std::move(block), std::move(request));
}

// Without what the block has answered.
JobOutcome JobRunner::OutcomeOf(const Attempt& attempt) {
  JobOutcome outcome;
  outcome.fed = attempt.fed;
  outcome.read_revision = attempt.read_revision;
  outcome.entries_to = attempt.entries_to;
  return outcome;
}

void JobRunner::EndUnfed(const std::shared_ptr<Attempt>& attempt) {
  JobOutcome outcome = OutcomeOf(*attempt);
  outcome.block_state = attempt->fed->state;
  End(attempt, std::move(outcome));
}

// What a model refuses by itself must not hold up all others.
void JobRunner::EndWithoutVector(const std::shared_ptr<Attempt>& attempt) {
  const Message& row = *attempt->entries.front();
  JobOutcome outcome = OutcomeOf(*attempt);
  outcome.block_state = attempt->fed->state;
  if (absl::StatusOr<VectorEntry> entry = DecodeVectorEntry(row.body);
      entry.ok() && !entry->sources.empty()) {
    entry->vector.clear();
    outcome.entries.push_back(EncodeVectorEntry(*entry));
    outcome.entry_positions.push_back(row.position);
    outcome.entry_messages.push_back({entry->sources.front().position,
                                      entry->sources.back().position + 1, row.ingest_us,
                                      row.ids->expire_us});
  }
  End(attempt, std::move(outcome));
}

void JobRunner::AskBlock(const std::shared_ptr<Attempt>& attempt,
                         std::shared_ptr<const Block> block, FeedRequest request) {
  const Job& job = attempt->job;
  request.job_id = JobId(job.key);
  request.generation = job.key.generation;
  request.attempt = job.attempts;
  request.now_us = options_.clock->NowUs();
  request.usage = attempt->usage;
  request.deadline = Clock::now() + options_.settings.attempt_time;
  attempt->session = nullptr;
  // The block lives until it has answered.
  block->Feed(std::move(request),
              [link = link_, attempt, block](absl::StatusOr<FeedResult> result) {
                MutexLock lock(link->mutex);
                if (link->runner == nullptr) return;
                JobRunner& runner = *link->runner;
                const Section section(runner);
                if (!section) return;
                runner.Guarded(attempt, [&] { runner.Fed(attempt, std::move(result)); });
              });
}

void JobRunner::Fed(const std::shared_ptr<Attempt>& attempt, absl::StatusOr<FeedResult> result) {
  if (!result.ok()) {
    Failed(attempt, result.status());
    return;
  }
  if (result->state.size() > kMaxBlockState) {
    Failed(attempt, absl::ResourceExhaustedError("the block's state exceeds 1 MiB"));
    return;
  }
  JobOutcome outcome = OutcomeOf(*attempt);
  outcome.block_state = std::move(result->state);
  outcome.entries = std::move(result->entries);
  outcome.entry_positions = std::move(result->entry_positions);
  outcome.entry_messages = std::move(result->entry_messages);
  ReachFailpoint("job_answered");
  End(attempt, std::move(outcome));
}

void JobRunner::Failed(const std::shared_ptr<Attempt>& attempt, const absl::Status& status) {
  const Job& job = attempt->job;
  const Verdict verdict = retry_.Judge(
      {job.attempts, attempt->entries.size(), EmbedsAnew(attempt->fed.get(), job)}, status);
  if (verdict == Verdict::kLeaveToOthers) {
    JobRelease release = RetryPolicy::LeaveToOthers(job, status, options_.clock->NowUs());
    // Due at once for the others.
    if (claimer_.LeaveToOthers(job.key, release.delay)) release.delay = {};
    GiveBack(attempt, std::move(release));
    return;
  }
  if (verdict == Verdict::kAwaitBudget) {
    GiveBack(attempt, retry_.AwaitBudget(job, status, options_.clock->NowUs()));
    return;
  }
  Increment(options_.stats->job_failures);
  if (verdict == Verdict::kEndWithoutVector) {
    EndWithoutVector(attempt);
    return;
  }
  if (verdict == Verdict::kTryAgain) {
    GiveBack(attempt, retry_.TryAgain(job, status, options_.random->Next()));
    return;
  }
  JobOutcome outcome;
  outcome.state = JobState::kFailed;
  outcome.error = JobErrorText(status);
  End(attempt, std::move(outcome));
}

void JobRunner::AwaitMemory(const std::shared_ptr<Attempt>& attempt, const absl::Status& status) {
  Increment(options_.stats->jobs_short_of_memory);
  GiveBack(attempt, retry_.AwaitMemory(attempt->job, status, options_.clock->NowUs(),
                                       options_.random->Next()));
}

void JobRunner::End(const std::shared_ptr<Attempt>& attempt, JobOutcome outcome) {
  outcome.job = attempt->job.key;
  outcome.usage = attempt->usage->Total();
  WriteRequest write;
  write.key = outcome.job.session;
  write.deadline = Clock::now() + kEndTime;
  write.byte_size = outcome.block_state.size();
  for (const std::string& entry : outcome.entries) write.byte_size += entry.size();
  const JobState state = outcome.state;
  const std::string error = outcome.error;
  write.command = commands::EndJob{std::move(outcome)};
  options_.writes->Submit(
      std::move(write), [this, attempt, state, error](const absl::StatusOr<WriteReply>& reply) {
        const absl::Status& status = reply.status();
        const Section section(*this);
        if (!section) return;
        if (ErrorReason(status) == "BLOCK_CHANGED") {
          // Somebody has undone a change meanwhile, or changed a message: the block is fed once
          // more, in the state it has now.
          Begin(attempt);
          return;
        }
        if (ErrorReason(status) == "MEMORY_SHORT") {
          // The session was evicted while a model was asked, and could not be read again.
          AwaitMemory(attempt, status);
          return;
        }
        if (!status.ok()) {
          // It may have been stored: then nothing is done by the second attempt.
          GiveBack(attempt, retry_.TryAgain(attempt->job, status, options_.random->Next()));
          return;
        }
        if (reply->result.job_number != 0) {
          Increment(state == JobState::kFailed ? options_.stats->jobs_failed
                                               : options_.stats->jobs_done);
        }
        Leave(attempt, state, error);
      });
}

void JobRunner::GiveBack(const std::shared_ptr<Attempt>& attempt, JobRelease release) {
  options_.executor->Submit(
      attempt->job.key.session.tenant, [this, attempt, release = std::move(release)] {
        const Section section(*this);
        if (!section) return;
        {
          // Before it is released: it may be claimed again at once.
          MutexLock lock(mutex_);
          queue_.Unhold(attempt->job.key);
        }
        // When this fails the lease runs out in the end.
        options_.store
            ->ReleaseJob(lease_, attempt->job.key, std::chrono::microseconds(release.delay).count(),
                         release.stored_error, attempt->usage->Total(), release.begun)
            .IgnoreError();
        Leave(attempt, JobState::kOpen, release.shown_error);
      });
}

void JobRunner::Leave(const std::shared_ptr<Attempt>& attempt, JobState state,
                      const std::string& error) {
  const JobKey& key = attempt->job.key;
  {
    MutexLock lock(mutex_);
    if (state != JobState::kOpen) {
      queue_.Unhold(key);
      counts_.erase(key);
      traces_.erase(key);
    }
    queue_.Leave(key);
  }
  claimer_.AttemptEnded(/*open=*/state == JobState::kOpen);
  waiters_.AttemptEnded(key, state, error);
  Pump();
}

}  // namespace memoryd
