#include "core/jobs/job_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/failpoint.h"
#include "core/blocks/vector_entry.h"

namespace memoryd {
namespace {

using Clock = std::chrono::steady_clock;

// Jobs held for each that runs; more wait in the store.
constexpr std::size_t kHeldPerRunning = 64;
constexpr std::size_t kMaxErrorBytes = 1024;
// Jobs whose trace is kept at a time, and how long, if they don't end here.
constexpr std::size_t kMaxTraces = 10'000;
constexpr std::chrono::hours kTraceTime(1);
// At the end, for jobs that another server would else wait for.
constexpr std::chrono::seconds kGiveBackTime(1);
// For the write that ends a job.
constexpr std::chrono::seconds kEndTime(30);
// How long a job whose worker is not attached here is left to other servers.
constexpr std::chrono::milliseconds kElsewhereDelay(2000);
constexpr std::chrono::milliseconds kLongestElsewhereDelay(30'000);

// Whether a model has refused what it was asked.
bool IsRefusal(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status) ||
         absl::IsOutOfRange(status);
}

// At most kMaxErrorBytes, cut between characters.
std::string Shortened(std::string text) {
  if (text.size() <= kMaxErrorBytes) return text;
  std::size_t end = kMaxErrorBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
  return text;
}

std::string ErrorText(const absl::Status& status) {
  std::string text = absl::StatusCodeToString(status.code());
  text += ": ";
  text += std::string_view(status.message().data(), status.message().size());
  return Shortened(std::move(text));
}

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
      lease_(options_.random() | 1U),
      link_(std::make_shared<Link>()),
      input_({options_.store, options_.bodies, options_.memory, options_.max_message_bytes}),
      waiters_(options_.pending),
      take_over_(options_.take_over),
      queue_(options_.settings.limits) {
  {
    MutexLock lock(link_->mutex);
    link_->runner = this;
  }
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
  if (--runner_.active_ == 0 && runner_.stopping_) runner_.wake_.NotifyAll();
}

void JobRunner::StartPolling() {
  thread_ = std::thread([this] { Run(); });
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
    wake_.NotifyAll();
    while (active_ > 0) wake_.Wait(mutex_);
    held = queue_.Close();
  }
  if (thread_.joinable()) thread_.join();
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

std::size_t JobRunner::held() {
  MutexLock lock(mutex_);
  return queue_.held().size();
}

void JobRunner::Poll() {
  {
    MutexLock lock(mutex_);
    poll_ = true;
  }
  wake_.NotifyOne();
}

void JobRunner::WorkerAttached() {
  {
    MutexLock lock(mutex_);
    elsewhere_.clear();
  }
  Poll();
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

void JobRunner::Feed(const std::shared_ptr<Attempt>& attempt) {
  const Job& job = attempt->job;
  FeedRequest request;
  std::int64_t done = 0;
  {
    CachedSession& place = *attempt->session;
    MutexLock lock(place.mutex);
    const auto state = place.session.blocks.find(job.key.block);
    if (place.session.exists() && place.session.row.block_generation == job.key.generation &&
        state != place.session.blocks.end()) {
      done = state->second->done;
      attempt->fed = state->second;
      attempt->read_revision = place.session.row.revision;
      request.state = *state->second;
      const SessionConfig& config = *place.session.config;
      request.session = {job.key.session, config.counting.profile, attempt->trace, config.zone()};
      if (config.EmbedsMessages()) {
        request.session.embedder = {config.ranking.embedder_worker, config.ranking.embedder};
      }
    } else {
      done = job.key.number;
    }
  }
  if (done >= job.key.number) {
    // It ended elsewhere, or what it belongs to is gone.
    Leave(attempt, JobState::kDone, {});
    return;
  }
  if (done + 1 != job.key.number) {
    GiveBack(attempt, std::chrono::milliseconds(0), {}, {}, /*begun=*/false);
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
  const bool of_entries = IsOfEntries(*attempt->fed, job);
  auto memory = input_.TakeMemory(job, of_entries);
  if (ErrorReason(memory.status()) == "MEMORY_SHORT") {
    AwaitMemory(attempt, memory.status());
    return;
  }
  if (!memory.ok()) {
    Failed(attempt, memory.status());
    return;
  }
  request.memory = *std::move(memory);
  if (of_entries) {
    auto entries = input_.ReadEntries(*attempt->fed, job);
    if (!entries.ok()) {
      Failed(attempt, entries.status());
      return;
    }
    request.entries = attempt->entries = std::move(entries->rows);
    attempt->entries_to = entries->end;
    if (request.entries.empty()) {
      EndUnfed(attempt);
      return;
    }
    AskBlock(attempt, *std::move(block), std::move(request));
    return;
  }
  auto messages = input_.ReadMessages(job);
  if (!messages.ok()) {
    Failed(attempt, messages.status());
    return;
  }
  if (messages->empty()) {
    // They were deleted one by one.
    EndUnfed(attempt);
    return;
  }
  request.messages = *std::move(messages);
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
  request.now_us = options_.now_us();
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
  if (ErrorReason(status) == "WORKER_ELSEWHERE") {
    LeaveToOthers(attempt, status);
    return;
  }
  if (ErrorReason(status) == "MODEL_BUDGET") {
    AwaitBudget(attempt, status);
    return;
  }
  Increment(options_.stats->job_failures);
  const bool is_last = attempt->job.attempts >= options_.settings.max_attempts;
  if (is_last && attempt->entries.size() == 1 && IsRefusal(status)) {
    EndWithoutVector(attempt);
    return;
  }
  const bool may_retry = attempt->job.attempts < options_.settings.max_attempts ||
                         EmbedsAnew(attempt->fed.get(), attempt->job);
  // A model's answer that was cut has been asked for with all the room that it may get.
  const bool is_final = absl::IsInvalidArgument(status) || ErrorReason(status) == "ANSWER_CUT";
  if (may_retry && (!is_final || !attempt->entries.empty())) {
    GiveBack(attempt, RetryDelay(attempt->job.attempts), ErrorText(status), ErrorText(status),
             /*begun=*/true);
    return;
  }
  JobOutcome outcome;
  outcome.state = JobState::kFailed;
  outcome.error = ErrorText(status);
  End(attempt, std::move(outcome));
}

void JobRunner::LeaveToOthers(const std::shared_ptr<Attempt>& attempt, const absl::Status& status) {
  // Soon for a worker that comes back to this server, rarely for one that does not.
  std::chrono::milliseconds delay =
      WaitDelay(attempt->job, kElsewhereDelay, kLongestElsewhereDelay);
  {
    MutexLock lock(mutex_);
    if (std::ssize(elsewhere_) < kMaxSkippedJobs) {
      // Due at once for the others.
      elsewhere_[attempt->job.key] = Clock::now() + delay;
      delay = std::chrono::milliseconds(0);
    }
  }
  GiveBack(attempt, delay, {}, ErrorText(status), /*begun=*/false);
}

void JobRunner::AwaitBudget(const std::shared_ptr<Attempt>& attempt, const absl::Status& status) {
  const JobSettings& settings = options_.settings;
  const std::string text =
      Shortened(fmt::format("MODEL_BUDGET: {}", std::string(status.message())));
  GiveBack(attempt, WaitDelay(attempt->job, settings.first_budget_wait, settings.max_budget_wait),
           text, text, /*begun=*/false);
}

void JobRunner::AwaitMemory(const std::shared_ptr<Attempt>& attempt, const absl::Status& status) {
  Increment(options_.stats->jobs_short_of_memory);
  const std::string text =
      Shortened(fmt::format("MEMORY_SHORT: {}", std::string(status.message())));
  const JobSettings& settings = options_.settings;
  const auto delay = WaitDelay(attempt->job, settings.first_memory_wait, settings.max_memory_wait);
  // Two jobs that have room only one after the other must not always meet.
  const auto half = static_cast<std::uint64_t>(delay.count() / 2 + 1);
  GiveBack(
      attempt,
      delay / 2 + std::chrono::milliseconds(static_cast<std::int64_t>(options_.random() % half)),
      text, text, /*begun=*/false);
}

// Soon at first, since what it waits for may be mended at once; then less and less often.
std::chrono::milliseconds JobRunner::WaitDelay(const Job& job, std::chrono::milliseconds shortest,
                                               std::chrono::milliseconds longest) const {
  const auto age = std::chrono::microseconds(options_.now_us() - job.create_us);
  return std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(age / 4), shortest,
                    longest);
}

std::chrono::milliseconds JobRunner::RetryDelay(std::int64_t attempts) const {
  std::int64_t delay = options_.settings.first_retry.count();
  for (std::int64_t i = 1; i < attempts && delay < options_.settings.max_retry.count(); ++i)
    delay *= 2;
  delay = std::min<std::int64_t>(delay, options_.settings.max_retry.count());
  const auto half = static_cast<std::uint64_t>(delay / 2 + 1);
  return std::chrono::milliseconds(delay / 2 + static_cast<std::int64_t>(options_.random() % half));
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
          GiveBack(attempt, RetryDelay(attempt->job.attempts), ErrorText(status), ErrorText(status),
                   /*begun=*/true);
          return;
        }
        if (reply->result.job_number != 0) {
          Increment(state == JobState::kFailed ? options_.stats->jobs_failed
                                               : options_.stats->jobs_done);
        }
        Leave(attempt, state, error);
      });
}

void JobRunner::GiveBack(const std::shared_ptr<Attempt>& attempt, std::chrono::milliseconds delay,
                         std::string stored_error, std::string shown_error, bool begun) {
  const std::string& tenant = attempt->job.key.session.tenant;
  options_.executor->Submit(
      tenant, [this, attempt, delay, begun, stored_error = std::move(stored_error),
               shown_error = std::move(shown_error)] {
        const Section section(*this);
        if (!section) return;
        {
          // Before it is released: it may be claimed again at once.
          MutexLock lock(mutex_);
          queue_.Unhold(attempt->job.key);
        }
        // When this fails the lease runs out in the end.
        options_.store
            ->ReleaseJob(lease_, attempt->job.key, std::chrono::microseconds(delay).count(),
                         stored_error, attempt->usage->Total(), begun)
            .IgnoreError();
        Leave(attempt, JobState::kOpen, shown_error);
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
    if (state == JobState::kOpen) {
      more_in_store_ = true;
    } else if (more_in_store_) {
      poll_ = true;
    }
  }
  wake_.NotifyOne();
  waiters_.AttemptEnded(key, state, error);
  Pump();
}

void JobRunner::Run() {
  auto next_renewal = Clock::now() + options_.settings.lease_time / 3;
  auto next_cleaning = Clock::now();
  for (;;) {
    bool clean = false;
    {
      // Servers that poll at one beat would always find the same jobs first.
      const auto interval = options_.settings.poll_interval;
      const auto half = static_cast<std::uint64_t>(interval.count() / 2 + 1);
      const auto next_poll =
          Clock::now() + interval / 2 + std::chrono::milliseconds(options_.random() % half);
      MutexLock lock(mutex_);
      while (!stopping_ && !poll_) {
        if (!wake_.WaitUntil(mutex_, next_poll)) break;
      }
      if (stopping_) return;
      poll_ = false;
      if (Clock::now() >= next_cleaning) {
        clean = true;
        std::erase_if(counts_, [](const auto& count) { return count.second.expired(); });
        const auto now = Clock::now();
        std::erase_if(traces_, [now](const auto& trace) { return trace.second.until <= now; });
        next_cleaning = Clock::now() + options_.settings.poll_interval;
      }
    }
    if (clean) waiters_.Clean();
    try {
      if (Clock::now() >= next_renewal) {
        Renew();
        next_renewal = Clock::now() + options_.settings.lease_time / 3;
      }
      Claim();
    } catch (...) {
      // What was claimed and not begun is claimed anew when its lease has run out.
      Increment(options_.stats->exceptions);
    }
  }
}

void JobRunner::Renew() {
  std::vector<JobKey> jobs;
  {
    MutexLock lock(mutex_);
    jobs.assign(queue_.held().begin(), queue_.held().end());
  }
  if (jobs.empty()) return;
  // When this fails others may run the jobs too; one of them will count.
  options_.store
      ->RenewJobs(lease_, jobs, std::chrono::microseconds(options_.settings.lease_time).count())
      .IgnoreError();
}

void JobRunner::Claim() {
  ClaimRequest request;
  request.lease = lease_;
  request.lease_us = std::chrono::microseconds(options_.settings.lease_time).count();
  request.take_over = take_over_;
  {
    MutexLock lock(mutex_);
    const auto now = Clock::now();
    std::erase_if(elsewhere_, [now](const auto& job) { return job.second <= now; });
    // Only what can be begun soon: others may have room.
    request.max_jobs =
        std::max<std::int64_t>(0, options_.settings.limits.max_running - std::ssize(queue_.held()));
  }
  if (request.max_jobs == 0) return;
  request.skip = [this](const JobKey& job) {
    MutexLock lock(mutex_);
    return elsewhere_.count(job) > 0;
  };
  auto jobs = options_.store->ClaimJobs(request);
  if (!jobs.ok()) return;  // The store is away; the next time, then.
  if (jobs->size() < static_cast<std::size_t>(request.max_jobs)) take_over_ = false;
  {
    MutexLock lock(mutex_);
    more_in_store_ = !jobs->empty();
  }
  for (Job& job : *jobs) {
    bool too_many = false;
    {
      MutexLock lock(mutex_);
      too_many =
          queue_.HeldOf(job.key.session.tenant) >= options_.settings.limits.max_running_of_tenant;
    }
    if (too_many) {
      // Later than those of other tenants.
      options_.store
          ->ReleaseJob(lease_, job.key,
                       std::chrono::microseconds(options_.settings.poll_interval).count(), {}, {},
                       /*begun=*/false)
          .IgnoreError();
      continue;
    }
    const std::shared_ptr<CachedSession> session = options_.cache->Acquire(job.key.session);
    std::vector<Job> one;
    one.push_back(std::move(job));
    Start(session, std::move(one));
  }
}

}  // namespace memoryd
