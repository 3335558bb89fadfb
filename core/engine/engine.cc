#include "core/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <type_traits>

#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/status_macros.h"
#include "core/blocks/block_ttl.h"
#include "core/blocks/memory_text.h"
#include "core/blocks/message_embedder.h"
#include "core/blocks/usage_state.h"
#include "core/reads/block_context.h"
#include "core/reads/compose.h"
#include "core/writes/message_lookup.h"

namespace memoryd {
namespace {

// Between two looks at what was read, at most.
constexpr std::chrono::milliseconds kFlushReads(1000);
// How often a search begins anew because the session was cut meanwhile.
constexpr int kSearchTries = 3;
// How often the message of a write is looked for that has changed by the time of the commit. Each
// time somebody else has been successful, so that the more there are the more tries it takes.
constexpr int kFindTries = 100;
// A reply of more is built by a reader, so that others need not wait for it on the one thread that
// confirms revisions, or on that of their connection.
constexpr std::size_t kLargeContext = 200;
constexpr std::int64_t kLargeContextBytes = 256 << 10;
// For the write that notes what answers for a session's embedder.
constexpr std::chrono::seconds kNoteTime(30);
// Rows per statement: small, so that a sweep never holds up a commit for long.
constexpr std::int64_t kSweepRows = 500;
constexpr std::chrono::seconds kStoreUsageTime(5);

// NOT_FOUND `JOB_NOT_FOUND` when there is none.
absl::StatusOr<Job> FindJob(Store& store, const JobKey& job) {
  MEMORYD_ASSIGN_OR_RETURN(std::optional<Job> found, store.FindJob(job));
  if (!found.has_value()) {
    return Error(absl::StatusCode::kNotFound, "JOB_NOT_FOUND", "there is no such job");
  }
  return *std::move(found);
}

// Whether the write may need what the operator says of sessions: it makes one where there is none,
// or gives one a template.
bool TakesDefaults(WriteKind kind) {
  return kind == WriteKind::kPut || kind == WriteKind::kSet || kind == WriteKind::kCreateSession ||
         kind == WriteKind::kUpdateSession;
}

// Whether a Put archives messages of the session before it can be decided on.
bool MakesRoom(CachedSession& place) {
  MutexLock lock(place.mutex);
  return place.loaded && !place.session.whole &&
         place.session.config->policy == PolicyKind::kFifo &&
         place.session.config->counting.profile == Profile::kDefault;
}

// Whether the write names messages or a content that must be found before it is decided on.
bool NamesStored(const WriteRequest& request) {
  switch (request.kind) {
    case WriteKind::kUpdateMessage:
    case WriteKind::kDeleteMessage:
    case WriteKind::kUpdateContent:
    case WriteKind::kDeleteContent:
      return true;
    case WriteKind::kEditFact:
      return !request.fact_edit.evidence.empty();
    default:
      return MustCheckRoles(request);
  }
}

}  // namespace

// A read that left the calling thread.
template <typename T>
class Engine::Read : public PendingCall {
 public:
  Read(Engine* engine, CallEnd end, Admission::Place place, Done<T> done)
      : PendingCall(end.deadline),
        engine_(engine),
        watch_(std::move(end.watch)),
        is_part_(end.is_part),
        place_(std::move(place)),
        done_(std::move(done)) {}

  void Finish(absl::StatusOr<T> result) {
    if (finished_.exchange(true)) return;
    engine_->pending_.Remove(this);
    if (absl::IsCancelled(result.status()) && !is_part_) {
      Increment(engine_->stats_.cancelled_reads);
    }
    if (!result.ok()) result = Reported(result.status());
    done_(std::move(result));
  }
  void Expire() override { Finish(StoreUnavailable()); }
  bool finished() const { return finished_.load(); }
  // To be asked before work begins. Finishes the read if its caller is gone.
  bool HasEnded() {
    if (finished()) return true;
    if (watch_ == nullptr || !watch_->IsCancelled()) return false;
    Finish(absl::CancelledError("the call was cancelled"));
    return true;
  }
  // The end of another read that is a part of this one.
  CallEnd end_of_part() const {
    CallEnd end(deadline(), watch_);
    end.is_part = true;
    return end;
  }

 private:
  Engine* const engine_;
  const std::shared_ptr<const CallWatch> watch_;
  const bool is_part_;
  const Admission::Place place_;
  const Done<T> done_;
  std::atomic<bool> finished_{false};
};

Engine::Engine(Store* store, EngineOptions options)
    : store_(store),
      options_(std::move(options)),
      token_rules_(options_.vocabulary_directory),
      cache_(options_.cache_bytes, options_.memory),
      admission_(options_.max_pending_calls, options_.max_pending_bytes,
                 [this] {
                   MutexLock lock(mutex_);
                   if (stopping_) changed_.NotifyAll();
                 }),
      models_(options_.models, &session_usage_, [this](const SessionKey& key) { StoreUsage(key); }),
      recall_(store_, options_.bodies, options_.index_bytes, options_.memory,
              options_.word_vectors),
      entries_(
          [this](const SessionKey& key, std::uint64_t generation, std::int64_t begin,
                 std::int64_t end, std::int64_t max_rows, std::int64_t max_bytes) {
            return store_->ReadRange(key, generation, {begin, end}, max_rows, max_bytes);
          },
          options_.vector_bytes, options_.memory),
      block_environment_{&models_,
                         options_.workers,
                         options_.bodies,
                         &entries_,
                         &block_stats_,
                         [this](std::string_view tenant, Executor::Task task) {
                           executor_.Submit(tenant, std::move(task));
                         },
                         &attached_},
      executor_(options_.readers, static_cast<std::size_t>(options_.max_pending_calls),
                &stats_.exceptions),
      searchers_(options_.searchers, static_cast<std::size_t>(options_.max_pending_calls),
                 &stats_.exceptions),
      counters_(options_.counters, static_cast<std::size_t>(options_.max_pending_calls),
                &stats_.exceptions, options_.counters_clock),
      counting_(&token_rules_, &counters_, options_.memory, &stats_.exceptions),
      loader_(store_, &cache_, &executor_, &stats_, options_.memory,
              options_.coherence == Coherence::kShared, options_.max_active_bytes),
      attached_(AttachedOptions()) {
  jobs_ = MakeJobRunner();
  if (options_.quota_of) {
    quotas_ = std::make_unique<Quotas>(store_, options_.quota_of, &executor_, &stats_);
  }
  for (int i = 0; i < options_.committers; ++i) {
    Committer::Options committer;
    committer.store = store_;
    committer.cache = &cache_;
    committer.token_rules = &token_rules_;
    committer.stats = &stats_;
    committer.shared = options_.coherence == Coherence::kShared;
    committer.now_us = options_.now_us;
    committer.random = options_.random;
    committer.max_active_bytes = options_.max_active_bytes;
    committer.has_room_for_jobs = [this] { return jobs_->HasRoom(); };
    committer.job_lease = jobs_->lease();
    committer.job_lease_us = std::chrono::microseconds(jobs_->lease_time()).count();
    committer.run_jobs = [this](const std::shared_ptr<CachedSession>& session,
                                std::vector<Job> jobs) { jobs_->Start(session, std::move(jobs)); };
    committer.count_jobs = [this](const std::vector<JobKey>& jobs,
                                  const std::shared_ptr<UsageCount>& usage) {
      jobs_->Count(jobs, usage);
    };
    committer.trace_jobs = [this](const std::vector<JobKey>& jobs, const TracePtr& trace) {
      jobs_->Trace(jobs, trace);
    };
    committer.usage = &session_usage_;
    committer.reload = [this](std::shared_ptr<Write> write) { Reload(std::move(write)); };
    committer.quotas = quotas_.get();
    committer.read_usage = [this](std::shared_ptr<Write> write) {
      const std::string& tenant = write->session->key.tenant;
      quotas_->Read(tenant, [this, write](const absl::Status& status) {
        if (status.ok()) {
          Guarded(write, [&] { Enqueue(write); });
        } else {
          write->Finish(Reported(status));
        }
      });
    };
    committer.count = [this](std::shared_ptr<Write> write) {
      Guarded(write, [&] { CountApart(write, *write->count_with, {}); });
    };
    committer.look_up = [this](std::shared_ptr<Write> write,
                               std::optional<SessionDraft::Decision> otherwise) {
      const std::string& tenant = write->session->key.tenant;
      executor_.Submit(tenant, [this, write, otherwise = std::move(otherwise)] {
        Guarded(write, [&] { LookUp(write, otherwise); });
      });
    };
    committers_.push_back(std::make_unique<Committer>(std::move(committer)));
  }
  expiry_ = MakeExpiry();
  sweeper_ = std::thread([this] { Sweep(); });
  jobs_->StartPolling();
}

Engine::~Engine() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  sweeper_.join();
  // What was read last counts as well.
  if (serving_.load()) expiry_->FlushReads();
  jobs_->Stop();
  if (serving_.load()) {
    for (const SessionKey& key : session_usage_.Sessions()) StoreUsage(key);
  }
  Drain(Deadline::max());
  committers_.clear();
}

absl::Status Engine::QueueFull(Counter& refused) {
  Increment(refused);
  return Error(absl::StatusCode::kResourceExhausted, "QUEUE_FULL",
               "too many calls wait for the store; nothing was started, try again later");
}

absl::StatusOr<Admission::Place> Engine::Admit(std::string_view tenant, std::int64_t bytes,
                                               bool forced) {
  if (!serving_.load(std::memory_order_relaxed)) return StoreUnavailable();
  Admission::Place place;
  switch (admission_.Enter(tenant, bytes, forced, place)) {
    case Admission::Outcome::kAdmitted:
      break;
    case Admission::Outcome::kTooManyCalls:
      return QueueFull(stats_.refused_calls);
    case Admission::Outcome::kTooManyBytes:
      return QueueFull(stats_.refused_bytes);
  }
  return place;
}

absl::Status Engine::AdmitInTime(const WriteRequest& request) {
  // A third: what waits goes before it, and what comes until then with it.
  constexpr int kShareOfTime = 3;
  Committer& committer = CommitterOf(request.key);
  auto wait = committer.ExpectedWait();
  if (wait == wait.zero()) return absl::OkStatus();
  const auto left = request.deadline - std::chrono::steady_clock::now();
  // A call whose time is over hears that instead.
  if (left <= left.zero() || wait * kShareOfTime <= left) return absl::OkStatus();
  // Of what other tenants have waiting, only a part goes before it.
  wait = committer.ExpectedWait(request.key.tenant);
  if (wait * kShareOfTime <= left) return absl::OkStatus();
  Increment(stats_.refused_late);
  const auto wait_ms = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
  return Error(absl::StatusCode::kResourceExhausted, "QUEUE_FULL",
               fmt::format("the store needs {} ms for what waits, too much for this call to be "
                           "answered in its time; nothing was started, try again later",
                           wait_ms),
               {{std::string(kRetryAfterMs), fmt::format("{}", wait_ms)}});
}

bool Engine::Drain(Deadline deadline) {
  MutexLock lock(mutex_);
  stopping_ = true;
  while (admission_.calls() > 0) {
    if (deadline == Deadline::max()) {
      changed_.Wait(mutex_);
    } else if (!changed_.WaitUntil(mutex_, deadline)) {
      return admission_.calls() == 0;
    }
  }
  return true;
}

template <typename Call, typename Work>
void Engine::Guarded(const std::shared_ptr<Call>& call, const Work& work) {
  try {
    work();
  } catch (...) {
    Increment(stats_.exceptions);
    call->Finish(CaughtException());
  }
}

void Engine::Submit(WriteRequest request, Write::Done done) {
  if (NamesStored(request)) {
    FindAndSubmit(std::make_shared<const WriteRequest>(std::move(request)), done, kFindTries);
  } else {
    SubmitFound(std::move(request), std::move(done));
  }
}

void Engine::FindAndSubmit(const std::shared_ptr<const WriteRequest>& request,
                           const Write::Done& done, int tries) {
  const auto submit = [this, request, done, tries](absl::StatusOr<FoundMessages> found) {
    if (!found.ok()) {
      done(found.status(), {}, false);
      return;
    }
    WriteRequest write = *request;
    if (found->status.ok() && write.edit) {
      found->status = write.edit(*found, write);
    }
    write.found = *std::move(found);
    std::shared_ptr<const WriteRequest> next = request;
    if (MustCheckRoles(write)) {
      // Another look begins where this one ended.
      auto looked = std::make_shared<WriteRequest>(*request);
      looked->found = write.found;
      next = std::move(looked);
    }
    SubmitFound(std::move(write), [this, next = std::move(next), done, tries](
                                      absl::Status status, std::string reply, bool replayed) {
      const std::string reason = ErrorReason(status);
      if (tries > 1 && (reason == "MESSAGE_CHANGED" || reason == "CONTENT_CHANGED")) {
        FindAndSubmit(next, done, tries - 1);
      } else {
        done(std::move(status), std::move(reply), replayed);
      }
    });
  };
  const auto read = StartRead<FoundMessages>(request->key.tenant, request->deadline, submit);
  if (read == nullptr) return;
  const std::shared_ptr<CachedSession> session = cache_.Acquire(request->key);
  SubmitCurrentRead(session, read, [this, session, read, request] {
    read->Finish(FindMessages(*store_, *options_.bodies, InfoOf(*session), *request));
  });
}

void Engine::SubmitFound(WriteRequest request, Write::Done done) {
  if (options_.defaults_of && TakesDefaults(request.kind)) {
    request.defaults_of = &options_.defaults_of;
  }
  const auto bytes = static_cast<std::int64_t>(request.byte_size);
  // Jobs are bounded by themselves, and a model has been paid for what they found out.
  // A copy is bounded by the call that makes it, and what it has staged had better go.
  // So is an erasure, of which one write is under way at a time, and a Put that makes room first.
  const bool forced =
      request.kind == WriteKind::kEndJob || request.kind == WriteKind::kAddStaged ||
      request.kind == WriteKind::kPublishStaged || request.kind == WriteKind::kDropStaged ||
      request.kind == WriteKind::kForgetSession || request.kind == WriteKind::kArchiveOldest ||
      request.kind == WriteKind::kStoreUsage || !request.subject.empty();
  auto place = [&]() -> absl::StatusOr<Admission::Place> {
    if (!forced) MEMORYD_RETURN_IF_ERROR(AdmitInTime(request));
    return Admit(request.key.tenant, bytes, forced);
  }();
  if (!place.ok()) {
    done(place.status(), {}, false);
    return;
  }
  std::shared_ptr<CachedSession> session = cache_.Acquire(request.key);
  // Lives as long as the write, which may be longer than the call: one that expired keeps its place
  // in a queue until the store moves on.
  struct Admitted {
    Admission::Place place;
    const Write* write = nullptr;
  };
  auto admitted = std::make_shared<Admitted>();
  admitted->place = *std::move(place);
  auto write = std::make_shared<Write>(std::move(request), session,
                                       [this, admitted, done = std::move(done)](
                                           absl::Status status, std::string reply, bool replayed) {
                                         pending_.Remove(admitted->write);
                                         if (!status.ok() || replayed) {
                                           if (status.ok()) Increment(stats_.replays);
                                           done(std::move(status), std::move(reply), replayed);
                                         } else {
                                           FinishWrite(*admitted->write, std::move(reply), done);
                                         }
                                       });
  admitted->write = write.get();
  admitted.reset();
  pending_.Add(write);
  bool loaded = false;
  {
    MutexLock lock(session->mutex);
    loaded = session->loaded;
  }
  Increment(loaded ? stats_.cache_hits : stats_.cache_misses);
  const auto enqueue = [this, write] {
    Guarded(write, [&] {
      if (absl::Status status = CheckBlocks(*write); !status.ok()) {
        write->Finish(std::move(status));
        return;
      }
      CountAndEnqueue(write);
    });
  };
  if (loaded) {
    enqueue();
    return;
  }
  loader_.WithLoaded(std::move(session), /*anew=*/false,
                     {[enqueue, write](const absl::Status& status) {
                        if (status.ok()) {
                          enqueue();
                        } else {
                          write->Finish(status);
                        }
                      },
                      [write] { return write->finished(); }});
}

std::optional<CountingRules> Engine::CountingRulesOf(const Write& write) {
  {
    MutexLock lock(write.session->mutex);
    if (!write.session->loaded) return std::nullopt;
    if (write.session->session.exists()) return write.session->session.config->counting;
  }
  const auto defaults = DefaultsFor(write.request);
  if (!defaults.ok()) return std::nullopt;
  if (defaults->from == nullptr && !write.request.settings.has_value()) return CountingRules();
  auto resolved = SessionConfig::Resolve(defaults->from == nullptr ? *write.request.settings
                                                                   : defaults->from->settings);
  if (!resolved.ok()) return std::nullopt;
  return resolved->counting;
}

// The committer has to count again only when the configuration turns out to be another one. Errors
// of what was asked are its business too.
void Engine::CountAndEnqueue(std::shared_ptr<Write> write) {
  std::optional<CountingRules> rules = CountingRulesOf(*write);
  CountProgress progress;
  absl::StatusOr<bool> all = true;
  if (rules.has_value()) {
    all = token_rules_.CountWithin(*rules, write->request, TokenRules::kCheapCost, progress);
    if (all.ok() && !*all) {
      CountApart(write, *std::move(rules), std::move(progress));
      return;
    }
  }
  if (all.ok()) {
    write->token_counts = std::move(progress.counts);
    write->counted_with = std::move(rules);
  }
  Enqueue(std::move(write));
}

void Engine::CountApart(const std::shared_ptr<Write>& write, CountingRules rules,
                        CountProgress progress) {
  auto task = std::make_shared<TokenCounting::Task>();
  task->tenant = write->session->key.tenant;
  task->rules = rules;
  task->request = &write->request;
  task->progress = std::move(progress);
  task->has_ended = [write] { return write->finished(); };
  task->done = [this, write, rules = std::move(rules)](absl::StatusOr<TokenCounts> counts) {
    Guarded(write, [&] {
      if (!counts.ok()) {
        write->Finish(counts.status());
        return;
      }
      write->token_counts = *std::move(counts);
      write->counted_with = rules;
      Enqueue(write);
    });
  };
  counting_.Start(std::move(task));
}

Committer& Engine::CommitterOf(const SessionKey& session) {
  return *committers_[SessionKeyHash()(session) % committers_.size()];
}

void Engine::Enqueue(std::shared_ptr<Write> write) {
  if (write->request.kind == WriteKind::kPut && MakesRoom(*write->session)) {
    ArchiveOldest(std::move(write));
    return;
  }
  Committer& owner = CommitterOf(write->session->key);
  owner.Enqueue(std::move(write));
}

void Engine::ArchiveOldest(std::shared_ptr<Write> write) {
  executor_.Submit(write->session->key.tenant, [this, write] {
    Guarded(write, [&] {
      if (write->finished()) return;
      WriteRequest archive;
      archive.kind = WriteKind::kArchiveOldest;
      archive.key = write->session->key;
      archive.deadline = write->deadline();
      archive.encode_reply = [](const WriteResult&) { return std::string(); };
      auto taken = TakeForOldest(*options_.memory, archive.key.tenant);
      if (!taken.ok()) {
        write->Finish(taken.status());
        return;
      }
      auto memory = std::make_shared<MemoryBudget::Hold>(*std::move(taken));
      const SessionInfo info = InfoOf(*write->session);
      auto oldest = ReadOldest(*store_, archive.key, info.row, info.config->user_roles);
      if (!oldest.ok()) {
        write->Finish(Reported(oldest.status()));
        return;
      }
      archive.oldest = *std::move(oldest);
      SubmitFound(std::move(archive),
                  [this, write, memory](const absl::Status& status, const std::string&, bool) {
                    memory->Release();
                    if (status.ok()) {
                      Guarded(write, [&] { Enqueue(write); });
                    } else {
                      write->Finish(status);
                    }
                  });
    });
  });
}

void Engine::Reload(std::shared_ptr<Write> write) {
  std::shared_ptr<CachedSession> session = write->session;
  loader_.WithLoaded(std::move(session), /*anew=*/true, [this, write](const absl::Status& status) {
    if (!status.ok()) {
      write->Finish(status);
      return;
    }
    write->fresh = true;
    Guarded(write, [&] { Enqueue(write); });
  });
}

void Engine::LookUp(const std::shared_ptr<Write>& write,
                    const std::optional<SessionDraft::Decision>& otherwise) {
  const WriteRequest& request = write->request;
  const auto records = store_->FindRequests(request.key, {&request.request_id, 1});
  if (!records.ok()) {
    // An earlier call with this request_id may have stored it.
    write->Finish(absl::IsUnavailable(records.status()) ? OutcomeUnknown() : records.status());
  } else if (const auto& record = records->front(); record.has_value()) {
    auto reply = ReplyOf(*record, request.fingerprint);
    if (reply.ok()) {
      write->Finish(absl::OkStatus(), *std::move(reply), /*replayed=*/true);
    } else {
      write->Finish(reply.status());
    }
  } else if (otherwise.has_value()) {
    write->Finish(otherwise->status, otherwise->reply);
  } else {
    Enqueue(write);
  }
}

void Engine::FinishWrite(const Write& write, std::string reply, const Write::Done& done) {
  const auto& with_open_jobs = write.request.with_open_jobs;
  if (write.jobs.empty() || with_open_jobs == nullptr) {
    done(absl::OkStatus(), std::move(reply), /*replayed=*/false);
    return;
  }
  const auto& wait_until = write.request.wait_until;
  if (!write.WaitsForJobs()) {
    std::vector<OpenJob> open;
    for (const JobKey& job : write.jobs) open.push_back({job, JobState::kOpen, {}});
    done(absl::OkStatus(), with_open_jobs(std::move(reply), open, {}), /*replayed=*/false);
    return;
  }
  const Deadline deadline = std::min(wait_until.value_or(Deadline::max()), write.deadline());
  jobs_->Wait(*write.session, write.jobs, /*one_attempt=*/!wait_until.has_value(), deadline,
              [done, with_open_jobs, reply = std::move(reply),
               usage = write.usage](const std::vector<OpenJob>& open) {
                done(absl::OkStatus(), with_open_jobs(reply, open, usage->Total()),
                     /*replayed=*/false);
              });
}

std::unique_ptr<JobRunner> Engine::MakeJobRunner() {
  JobRunner::Options jobs;
  jobs.store = store_;
  jobs.cache = &cache_;
  jobs.loader = &loader_;
  jobs.executor = &executor_;
  jobs.pending = &pending_;
  jobs.stats = &stats_;
  jobs.bodies = options_.bodies;
  jobs.memory = options_.memory;
  jobs.find_block = [this](
                        CachedSession& session,
                        const std::string& name) -> absl::StatusOr<std::shared_ptr<const Block>> {
    std::shared_ptr<const SessionConfig> config;
    {
      MutexLock lock(session.mutex);
      config = session.session.config;
    }
    if (name == kRetrievalBlock) return MakeMessageEmbedder(*config);
    MEMORYD_ASSIGN_OR_RETURN(const std::shared_ptr<const BlockSet> blocks,
                             BlocksOf(session, config));
    for (const std::shared_ptr<const Block>& block : *blocks) {
      if (block->name() == name && (block->feeds() || block->has_entries())) return block;
    }
    return nullptr;
  };
  jobs.submit = [this](WriteRequest write, Write::Done done) {
    Submit(std::move(write), std::move(done));
  };
  jobs.max_message_bytes = 2 * std::min(options_.max_active_bytes, kAllActive / 2);
  jobs.now_us = options_.now_us;
  jobs.random = options_.random;
  jobs.settings = options_.jobs;
  jobs.take_over = options_.coherence == Coherence::kExclusive;
  return std::make_unique<JobRunner>(std::move(jobs));
}

AttachedSessions::Options Engine::AttachedOptions() {
  AttachedSessions::Options attached;
  attached.cache = &cache_;
  attached.loader = &loader_;
  attached.run = [this](std::string_view tenant, Executor::Task task) {
    executor_.Submit(tenant, std::move(task));
  };
  attached.blocks_of = [this](CachedSession& session,
                              const std::shared_ptr<const SessionConfig>& config) {
    return BlocksOf(session, config);
  };
  attached.begin = [this](std::string_view tenant, Deadline deadline,
                          Done<FeedResult> done) -> Done<FeedResult> {
    const auto read = StartRead<FeedResult>(tenant, deadline, std::move(done));
    if (read == nullptr) return nullptr;
    return [read](absl::StatusOr<FeedResult> result) { read->Finish(std::move(result)); };
  };
  attached.submit = [this](WriteRequest write, Write::Done done) {
    Submit(std::move(write), std::move(done));
  };
  attached.encode = options_.hand_on;
  return attached;
}

std::shared_ptr<const Block> Engine::MakeMessageEmbedder(const SessionConfig& config) const {
  if (!config.EmbedsMessages()) return nullptr;
  const auto find_rows = [this](const SessionKey& key, std::uint64_t generation, std::int64_t begin,
                                std::int64_t end) -> absl::StatusOr<std::vector<std::int64_t>> {
    MEMORYD_ASSIGN_OR_RETURN(const std::vector<RowSize> rows,
                             store_->ReadSizes(key, generation, {begin, end}, end - begin));
    std::vector<std::int64_t> positions;
    positions.reserve(rows.size());
    for (const RowSize& row : rows) positions.push_back(row.position);
    return positions;
  };
  return std::make_shared<const MessageEmbedder>(
      ModelName{config.ranking.embedder_worker, config.ranking.embedder}, block_environment_,
      find_rows);
}

absl::Status Engine::CheckBlocks(const Write& write) const {
  const WriteRequest& request = write.request;
  if (!request.settings.has_value() && request.template_name.empty()) return absl::OkStatus();
  SessionSettings settings = request.settings.value_or(SessionSettings());
  if (request.kind == WriteKind::kUpdateSession) {
    std::string config;
    {
      MutexLock lock(write.session->mutex);
      // One that is not there has no configuration: the draft says that it is not found.
      if (!write.session->session.exists()) return absl::OkStatus();
      config = write.session->session.row.config;
    }
    MEMORYD_ASSIGN_OR_RETURN(const SessionSettings old, SessionSettings::FromJson(config));
    MEMORYD_ASSIGN_OR_RETURN(settings, SettingsOfUpdate(request, old));
  }
  return CheckBlocks(write.session->key, settings);
}

absl::Status Engine::CheckBlocks(const SessionKey& key, const SessionSettings& settings) const {
  if (!settings.blocks.has_value()) return absl::OkStatus();
  MEMORYD_RETURN_IF_ERROR(CheckOtherSessions(key, *settings.blocks));
  return MakeBlocks(*settings.blocks, settings.profile.value_or(Profile::kDefault),
                    block_environment_)
      .status();
}

absl::StatusOr<std::shared_ptr<const BlockSet>> Engine::BlocksOf(
    CachedSession& session, const std::shared_ptr<const SessionConfig>& config) const {
  {
    MutexLock lock(session.mutex);
    if (session.blocks_of == config) return session.blocks;
  }
  auto blocks = std::make_shared<BlockSet>();
  MEMORYD_ASSIGN_OR_RETURN(
      *blocks, MakeBlocks(config->blocks, config->counting.profile, block_environment_));
  MutexLock lock(session.mutex);
  session.blocks = blocks;
  session.blocks_of = config;
  return blocks;
}

template <typename T>
std::shared_ptr<Engine::Read<T>> Engine::StartRead(std::string_view tenant, CallEnd end,
                                                   Done<T> done, std::int64_t bytes) {
  absl::StatusOr<Admission::Place> place = Admit(tenant, bytes);
  if (!place.ok()) {
    done(place.status());
    return nullptr;
  }
  auto read = std::make_shared<Read<T>>(this, std::move(end), *std::move(place), std::move(done));
  pending_.Add(read);
  return read;
}

template <typename T>
void Engine::SubmitRead(std::string_view tenant, const std::shared_ptr<Read<T>>& read,
                        Executor::Task task) {
  const auto guarded = [this, read, task = std::move(task)] {
    if (!read->HasEnded()) Guarded(read, task);
  };
  if (!executor_.TrySubmit(tenant, guarded)) read->Finish(QueueFull(stats_.refused_calls));
}

template <typename T>
void Engine::WithCurrent(const std::shared_ptr<CachedSession>& session,
                         const std::shared_ptr<Read<T>>& read, Executor::Task work) {
  loader_.WithCurrent(session, {[read, work = std::move(work)](const absl::Status& status) {
                                  if (status.ok()) {
                                    work();
                                  } else {
                                    read->Finish(status);
                                  }
                                },
                                [read] { return read->HasEnded(); }});
}

template <typename T>
void Engine::SubmitCurrentRead(const std::shared_ptr<CachedSession>& session,
                               const std::shared_ptr<Read<T>>& read, Executor::Task task) {
  WithCurrent(session, read, [this, session, read, task = std::move(task)] {
    SubmitRead(session->key.tenant, read, task);
  });
}

void Engine::Get(const SessionKey& key, std::optional<std::string> input, CallEnd end,
                 Done<Context> done, TracePtr trace) {
  std::shared_ptr<CachedSession> session = cache_.Acquire(key);
  if (!loader_.shared() && serving_.load(std::memory_order_relaxed)) {
    std::optional<Context> context;
    {
      MutexLock lock(session->mutex);
      if (session->loaded && session->session.whole && session->session.config->blocks.empty() &&
          session->session.active_bytes <= kLargeContextBytes) {
        context = ComposeLive(session->session);
        expiry_->NoteRead(key, session->session.row, *session->session.config);
      }
    }
    if (context.has_value()) {
      Increment(stats_.cache_hits);
      done(*std::move(context));
      return;
    }
  }
  const auto read = StartRead<Context>(key.tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  WithCurrent(session, read,
              [this, session, input = std::move(input), trace = std::move(trace), read] {
                bool large = false;
                {
                  MutexLock lock(session->mutex);
                  large = session->session.active.size() > kLargeContext ||
                          session->session.active_bytes > kLargeContextBytes ||
                          !session->session.config->blocks.empty();
                }
                const auto compose = [this, session, input, trace, read] {
                  if (read->HasEnded()) return;
                  Guarded(read, [&] { ComposeContext(session, input, trace, read); });
                };
                if (large) {
                  executor_.Submit(session->key.tenant, compose);
                } else {
                  compose();
                }
              });
}

void Engine::ComposeContext(const std::shared_ptr<CachedSession>& session,
                            const std::optional<std::string>& input, const TracePtr& trace,
                            const std::shared_ptr<Read<Context>>& read) {
  std::optional<Context> plain;
  BlockContextRequest request;
  absl::Status status;
  {
    MutexLock lock(session->mutex);
    expiry_->NoteRead(session->key, session->session.row, *session->session.config);
    if (!session->session.whole) {
      status = SessionTooLarge(session->session.active_bytes);
    } else if (!session->session.exists() || session->session.config->blocks.empty()) {
      plain = ComposeLive(session->session);
    } else {
      request.session = session->session;
      // Kept by the cache alone.
      request.session.recent_requests.clear();
      if (HasTimedItems(request.session.row)) HideExpired(request.session, options_.now_us());
    }
  }
  if (!status.ok()) {
    read->Finish(std::move(status));
    return;
  }
  if (plain.has_value()) {
    read->Finish(*std::move(plain));
    return;
  }
  auto blocks = BlocksOf(*session, request.session.config);
  auto counter = token_rules_.CounterOf(request.session.config->counting);
  if (!blocks.ok() || !counter.ok()) {
    read->Finish(blocks.ok() ? counter.status() : blocks.status());
    return;
  }
  request.key = session->key;
  request.blocks = *std::move(blocks);
  request.input = input;
  request.trace = trace;
  request.now_us = options_.now_us();
  request.block_timeout = options_.block_timeout;
  request.deadline = read->deadline();
  request.bodies = options_.bodies;
  request.counter = *std::move(counter);
  request.run = [this, session](Executor::Task task) {
    executor_.Submit(session->key.tenant, std::move(task));
  };
  BuildBlockContext(std::move(request),
                    [read](absl::StatusOr<Context> context) { read->Finish(std::move(context)); });
}

Context Engine::ComposeLive(const Session& session) const {
  if (!HasTimedItems(session.row)) return Compose(session);
  const std::int64_t now_us = options_.now_us();
  if (!HasExpired(session, now_us)) return Compose(session);
  Session live = session;
  HideExpired(live, now_us);
  return Compose(live);
}

SessionInfo Engine::InfoOf(CachedSession& session) {
  MutexLock lock(session.mutex);
  return {session.session.row, session.session.config};
}

void Engine::GetSession(const SessionKey& key, CallEnd end, Done<SessionInfo> done) {
  const auto read = StartRead<SessionInfo>(key.tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  std::shared_ptr<CachedSession> session = cache_.Acquire(key);
  WithCurrent(session, read, [this, session, read] {
    SessionInfo info;
    {
      MutexLock lock(session->mutex);
      info = {session->session.row, session->session.config};
      const auto stored = session->session.blocks.find(std::string(kUsageBlock));
      if (stored != session->session.blocks.end()) info.usage = DecodeUsage(stored->second->state);
      info.usage += session_usage_.Of(session->key);
    }
    read->Finish(std::move(info));
  });
}

void Engine::StoreUsage(const SessionKey& key) {
  WriteRequest write;
  write.kind = WriteKind::kStoreUsage;
  write.key = key;
  write.deadline = std::chrono::steady_clock::now() + kStoreUsageTime;
  write.encode_reply = [](const WriteResult& /*result*/) { return std::string(); };
  // What is not stored waits for another commit.
  Submit(std::move(write), [](const absl::Status&, const std::string&, bool) {});
}

void Engine::ListJobs(const SessionKey& key, JobFilter filter, CallEnd end,
                      Done<std::vector<Job>> done) {
  const auto read = StartRead<std::vector<Job>>(key.tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  std::shared_ptr<CachedSession> session = cache_.Acquire(key);
  SubmitCurrentRead(session, read, [this, session, read, filter]() mutable {
    filter.generation = InfoOf(*session).row.block_generation;
    if (filter.generation == 0) {
      read->Finish(std::vector<Job>());
    } else {
      read->Finish(store_->ListJobs(session->key, filter));
    }
  });
}

void Engine::GetJob(JobKey job, CallEnd end, Done<Job> done) {
  const auto read = StartRead<Job>(job.session.tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  SubmitRead(job.session.tenant, read, [this, read, job] { read->Finish(FindJob(*store_, job)); });
}

void Engine::SubmitJobWrite(WriteRequest write, const std::shared_ptr<Read<Job>>& read,
                            JobKey job) {
  write.key = job.session;
  write.deadline = read->deadline();
  Submit(std::move(write), [this, read, job = std::move(job)](const absl::Status& status,
                                                              const std::string& reply,
                                                              bool /*replayed*/) mutable {
    if (!status.ok()) {
      read->Finish(status);
      return;
    }
    // The reply is the number of the job to return; none: nothing was changed.
    if (reply.empty()) {
      read->Finish(Error(absl::StatusCode::kFailedPrecondition, "JOB_NOT_FIRST",
                         "job_id: the job has ended, or an earlier one of its block is open"));
      return;
    }
    executor_.Submit(job.session.tenant, [this, read, job, reply]() mutable {
      job.number = std::stoll(reply);
      read->Finish(FindJob(*store_, job));
    });
  });
}

void Engine::RetryJob(JobKey job, Deadline deadline, Done<Job> done) {
  const auto read = StartRead<Job>(job.session.tenant, deadline, std::move(done));
  if (read == nullptr) return;
  SubmitRead(job.session.tenant, read, [this, read, job] {
    auto found = FindJob(*store_, job);
    if (!found.ok()) {
      read->Finish(found.status());
    } else if (found->state != JobState::kFailed && found->state != JobState::kCancelled) {
      read->Finish(Error(absl::StatusCode::kFailedPrecondition, "JOB_NOT_FAILED",
                         "job_id: only a job that failed or was cancelled can be retried"));
    } else {
      WriteRequest write;
      write.kind = WriteKind::kRetryJob;
      write.job = *std::move(found);
      write.encode_reply = [](const WriteResult& result) {
        return std::to_string(result.job_number);
      };
      SubmitJobWrite(std::move(write), read, job);
    }
  });
}

void Engine::CancelJob(JobKey job, Deadline deadline, Done<Job> done) {
  const auto read = StartRead<Job>(job.session.tenant, deadline, std::move(done));
  if (read == nullptr) return;
  SubmitRead(job.session.tenant, read, [this, read, job] {
    if (const auto found = FindJob(*store_, job); !found.ok()) {
      read->Finish(found.status());
      return;
    }
    WriteRequest write;
    write.kind = WriteKind::kEndJob;
    write.job_outcome.emplace();
    write.job_outcome->job = job;
    write.job_outcome->state = JobState::kCancelled;
    write.encode_reply = [](const WriteResult& result) {
      return result.job_number == 0 ? std::string() : std::to_string(result.job_number);
    };
    SubmitJobWrite(std::move(write), read, job);
  });
}

absl::StatusOr<Engine::BlockAt> Engine::FindBlock(CachedSession& session,
                                                  const std::string& name) const {
  BlockAt at;
  std::shared_ptr<const SessionConfig> config;
  {
    MutexLock lock(session.mutex);
    if (!session.session.exists()) return SessionNotFound();
    config = session.session.config;
    at.revision = session.session.row.revision;
    const auto state = session.session.blocks.find(name);
    if (state != session.session.blocks.end()) at.state = state->second;
  }
  MEMORYD_ASSIGN_OR_RETURN(const std::shared_ptr<const BlockSet> blocks, BlocksOf(session, config));
  for (std::size_t i = 0; i < blocks->size(); ++i) {
    if ((*blocks)[i]->name() != name) continue;
    at.settings = config->blocks[i];
    at.block = (*blocks)[i];
    return at;
  }
  return BlockNotFound();
}

void Engine::GetBlock(const SessionKey& key, std::string block, CallEnd end, Done<BlockView> done) {
  const auto read = StartRead<BlockView>(key.tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  std::shared_ptr<CachedSession> session = cache_.Acquire(key);
  // A large state takes long to read: not on the one thread that confirms revisions.
  auto look = [this, read, session, block = std::move(block)] {
    if (block == kRetrievalBlock) {
      read->Finish(ViewOfEmbeddings(*session));
      return;
    }
    auto at = FindBlock(*session, block);
    if (!at.ok()) {
      read->Finish(at.status());
      return;
    }
    auto known = at->block->Known(at->state == nullptr ? BlockState() : *at->state);
    if (!known.ok()) {
      read->Finish(known.status());
      return;
    }
    read->Finish(
        BlockView{std::move(at->settings), at->revision, std::move(at->state), *std::move(known)});
  };
  SubmitCurrentRead(session, read, std::move(look));
}

absl::StatusOr<BlockView> Engine::ViewOfEmbeddings(CachedSession& session) {
  BlockView view;
  KnownEmbeddings known;
  {
    MutexLock lock(session.mutex);
    if (!session.session.exists()) return SessionNotFound();
    const SessionConfig& config = *session.session.config;
    if (!config.EmbedsMessages()) return BlockNotFound();
    const SessionRow& row = session.session.row;
    view.settings.name = kRetrievalBlock;
    view.revision = row.revision;
    known.first_position = row.pinned.empty() ? row.floor : std::min(row.floor, row.pinned.front());
    known.next_position = row.next_position;
    const auto found = session.session.blocks.find(view.settings.name);
    if (found != session.session.blocks.end()) view.state = found->second;
    known.state.source.embedder = config.ranking.embedder;
    known.state.source.worker = config.ranking.embedder_worker;
  }
  if (view.state != nullptr) {
    MEMORYD_ASSIGN_OR_RETURN(EmbeddingState state, EmbeddingState::FromJson(view.state->state));
    if (state.source.embedder.empty()) {
      state.source.embedder = std::move(known.state.source.embedder);
      state.source.worker = std::move(known.state.source.worker);
    }
    known.state = std::move(state);
  }
  view.knowledge.of_kind = std::move(known);
  return view;
}

void Engine::ListBlockEntries(EntryPageRequest request, CallEnd end, Done<EntryPage> done) {
  auto read = StartRead<EntryPage>(request.key.tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  std::shared_ptr<CachedSession> session = cache_.Acquire(request.key);
  request.now_us = options_.now_us();
  ReadEntries(std::move(read), std::move(session), std::move(request), /*again=*/false);
}

void Engine::ReadEntries(std::shared_ptr<Read<EntryPage>> read,
                         std::shared_ptr<CachedSession> session, EntryPageRequest request,
                         bool again) {
  auto read_rows = [this, session, read, request, again] {
    const auto at = FindBlock(*session, request.block);
    if (!at.ok()) {
      read->Finish(at.status());
      return;
    }
    if (!at->block->has_entries()) {
      read->Finish(Error(absl::StatusCode::kFailedPrecondition, "BLOCK_HAS_NO_ENTRIES",
                         "block: only blocks of kind vector have entries"));
      return;
    }
    EntryPageRequest asked = request;
    asked.ttl_us = BlockTtlUs(at->settings);
    auto page =
        memoryd::ReadEntries(*store_, at->state == nullptr ? BlockState() : *at->state, asked);
    // Was the block cleared between the look at its state and the read? Then the second look tells.
    if (page.ok() && page->has_gap && !again) {
      ReadEntries(read, session, request, /*again=*/true);
    } else {
      read->Finish(std::move(page));
    }
  };
  SubmitCurrentRead(session, read, std::move(read_rows));
}

void Engine::GetContent(const SessionKey& key, std::string content_id, CallEnd end,
                        Done<ContentView> done) {
  const auto read = StartRead<ContentView>(key.tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  std::shared_ptr<CachedSession> session = cache_.Acquire(key);
  SubmitCurrentRead(session, read, [this, read, session, id = std::move(content_id)] {
    SessionInfo info = InfoOf(*session);
    auto content = FindContent(*store_, session->key, info, id);
    if (content.ok() && (*content)->IsExpired(options_.now_us())) content = ContentNotFound();
    if (content.ok()) {
      read->Finish(ContentView{*std::move(content), std::move(info.row)});
    } else {
      read->Finish(content.status());
    }
  });
}

void Engine::ReadPage(PageRequest request, CallEnd end, Done<Page> done) {
  auto read = StartRead<Page>(request.key.tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  std::shared_ptr<CachedSession> session = cache_.Acquire(request.key);
  request.now_us = options_.now_us();
  ReadRows(std::move(read), std::move(session), std::move(request), /*before=*/nullptr);
}

void Engine::ReadRows(std::shared_ptr<Read<Page>> read, std::shared_ptr<CachedSession> session,
                      PageRequest request, std::shared_ptr<Page> before) {
  auto read_rows = [this, session, read, request, before] {
    const SessionInfo info = InfoOf(*session);
    expiry_->NoteRead(session->key, info.row, *info.config);
    // Was the session reset between the look at its row and the read? Then the second look tells;
    // else messages were missing before.
    const bool stands = before != nullptr && info.row.generation == before->row.generation &&
                        info.row.content_generation == before->row.content_generation &&
                        info.row.floor == before->row.floor &&
                        info.row.watermark == before->row.watermark &&
                        info.row.edit_revision == before->row.edit_revision;
    // A commit whose reply is on its way took rows out before it is seen here.
    if (stands && !read->finished() && IsBehindStore(session->key, info.row)) {
      ReadRows(read, session, request, before);
      return;
    }
    // It would be held together with the one that takes its place.
    if (!stands && before != nullptr) *before = Page();
    absl::StatusOr<Page> page =
        stands ? std::move(*before)
               : memoryd::ReadPage(*store_, *options_.bodies, *options_.memory, info, request);
    if (page.ok() && page->has_gap && before == nullptr) {
      ReadRows(read, session, request, std::make_shared<Page>(*std::move(page)));
    } else if (page.ok() && request.include_total) {
      CountTotal(read, std::make_shared<Page>(*std::move(page)),
                 std::make_shared<PageTotal>(info, request));
    } else {
      read->Finish(std::move(page));
    }
  };
  SubmitCurrentRead(session, read, std::move(read_rows));
}

bool Engine::IsBehindStore(const SessionKey& key, const SessionRow& row) const {
  // Of a session that others write too the revision has been asked for.
  if (loader_.shared()) return false;
  const auto stored = store_->Revisions({&key, 1});
  if (!stored.ok()) return false;
  const std::optional<SessionVersion>& version = stored->front();
  return !version.has_value() || version->generation != row.generation ||
         version->revision > row.revision;
}

void Engine::CountTotal(const std::shared_ptr<Read<Page>>& read, const std::shared_ptr<Page>& page,
                        const std::shared_ptr<PageTotal>& total) {
  const auto done = total->Step(*store_, *options_.bodies, *options_.memory);
  if (!done.ok()) {
    read->Finish(done.status());
  } else if (*done) {
    page->total_count = total->count();
    read->Finish(std::move(*page));
  } else if (!read->HasEnded()) {
    // Behind whoever waits for a reader.
    SubmitRead(total->tenant(), read, [this, read, page, total] { CountTotal(read, page, total); });
  }
}

template <typename T, typename Request>
struct Engine::SearchCall {
  const std::shared_ptr<Read<T>> read;
  const std::shared_ptr<CachedSession> session;
  const Request request;
  SessionSearch::Index index = nullptr;
  int tries_left = kSearchTries;
  // Of a Query whose session has an embedder: what that said, and for which embeddings it was
  // asked; 0: it was not.
  std::uint64_t embedded_for = 0;
  QueryEmbedding embedding = {};
  std::string embedder_failure = {};
  std::shared_ptr<UsageCount> usage = nullptr;  // Of the embedder.
  // Of an UpdateContext: what is stable in what its blocks of kind `session` show, by their names;
  // absent before that has been asked.
  std::optional<std::map<std::string, BlockContent>> shown = {};
};

template <typename T, typename Request>
void Engine::StartSearch(Request request, CallEnd end, Done<T> done) {
  auto read = StartRead<T>(request.key.tenant, std::move(end), std::move(done),
                           static_cast<std::int64_t>(request.byte_size));
  if (read == nullptr) return;
  std::shared_ptr<CachedSession> session = cache_.Acquire(request.key);
  if constexpr (std::is_same_v<Request, QueryRequest>) {
    request.shape.now_us = options_.now_us();
  } else if constexpr (std::is_same_v<Request, UpdateContextRequest>) {
    request.now_us = options_.now_us();
  }
  BeginSearch(std::make_shared<SearchCall<T, Request>>(
      SearchCall<T, Request>{std::move(read), std::move(session), std::move(request)}));
}

template <typename T, typename Request>
void Engine::BeginSearch(const std::shared_ptr<SearchCall<T, Request>>& call) {
  WithCurrent(call->session, call->read, [this, call] { QueueStep(call); });
}

template <typename T, typename Request>
void Engine::QueueStep(const std::shared_ptr<SearchCall<T, Request>>& call) {
  QueueSearch(call->session, [this, call] { Guarded(call->read, [&] { StepSearch(call); }); });
}

template <typename T, typename Request>
void Engine::StepSearch(const std::shared_ptr<SearchCall<T, Request>>& call) {
  if (call->read->HasEnded()) return;
  SessionInfo info;
  std::shared_ptr<const BlockState> embeddings;
  {
    CachedSession& cached = *call->session;
    MutexLock lock(cached.mutex);
    info = {cached.session.row, cached.session.config};
    const auto found = cached.session.blocks.find(std::string(kRetrievalBlock));
    if (found != cached.session.blocks.end()) embeddings = found->second;
  }
  // Not a session that is only searched with the one that was asked.
  if constexpr (!std::is_same_v<Request, PrepareRequest>) {
    expiry_->NoteRead(call->request.key, info.row, *info.config);
  }
  const bool accept_missing = call->tries_left == 0;
  absl::Status status;
  if (Recall::NeedsIndex(info, call->request)) {
    if (call->index == nullptr) call->index = recall_.search().Open(call->request.key);
    const auto ready = recall_.search().CatchUp(call->index, info.row, info.config->ranking,
                                                accept_missing, embeddings.get());
    if (ready.ok() && !*ready) {
      QueueStep(call);
      return;
    }
    status = ready.status();
  }
  if constexpr (std::is_same_v<Request, QueryRequest>) {
    const std::vector<std::string> others = Recall::OtherSessions(info, call->request);
    if (status.ok() && !others.empty()) {
      PrepareOthers(call, others);
      return;
    }
    if (status.ok() && call->index != nullptr && EmbedQuery(call, info, embeddings.get())) return;
  }
  if constexpr (std::is_same_v<Request, UpdateContextRequest>) {
    if (status.ok() && !call->shown.has_value() && ShowOthers(call, info)) return;
  }
  absl::StatusOr<T> answer = [&]() -> absl::StatusOr<T> {
    MEMORYD_RETURN_IF_ERROR(status);
    std::shared_ptr<const KnownTexts> texts;
    if constexpr (!std::is_same_v<Request, UpdateContextRequest>) {
      if (call->index != nullptr && call->request.AsksBlocks()) {
        MEMORYD_ASSIGN_OR_RETURN(texts, TextsOf(*call->session, call->index));
      }
    }
    if constexpr (std::is_same_v<Request, UpdateContextRequest>) {
      MEMORYD_ASSIGN_OR_RETURN(const std::vector<OfferedBlock> blocks,
                               StableBlocks(*call->session, *call->shown));
      return recall_.Answer(info, call->index, call->request, accept_missing, blocks);
    } else if constexpr (std::is_same_v<Request, PrepareRequest>) {
      return Recall::Answer(info, call->index, call->request, std::move(texts));
    } else {
      MEMORYD_ASSIGN_OR_RETURN(Found found,
                               recall_.Answer(info, call->index, call->request, accept_missing,
                                              call->embedding, texts.get()));
      found.embedder_failure = call->embedder_failure;
      if (call->usage != nullptr) found.usage = call->usage->Total();
      return found;
    }
  }();
  FinishSearch(call, std::move(answer));
}

template <typename T, typename Request>
void Engine::FinishSearch(const std::shared_ptr<SearchCall<T, Request>>& call,
                          absl::StatusOr<T> answer) {
  if (absl::IsAborted(answer.status()) && call->tries_left > 0) {
    --call->tries_left;
    BeginSearch(call);
  } else {
    call->read->Finish(std::move(answer));
  }
}

void Engine::PrepareOthers(const std::shared_ptr<SearchCall<Found, QueryRequest>>& call,
                           const std::vector<std::string>& others) {
  struct Preparation {
    Mutex mutex;
    std::vector<PreparedSession> ready MEMORYD_GUARDED_BY(mutex);
    std::size_t left MEMORYD_GUARDED_BY(mutex) = 0;
  };
  auto preparation = std::make_shared<Preparation>();
  {
    MutexLock lock(preparation->mutex);
    preparation->ready.resize(others.size());
    preparation->left = others.size();
  }
  for (std::size_t i = 0; i < others.size(); ++i) {
    PrepareRequest request;
    request.key = {call->request.key.tenant, others[i]};
    request.with_blocks = call->request.AsksBlocks();
    StartSearch<PreparedSession>(
        std::move(request), call->read->end_of_part(),
        [this, call, preparation, i](absl::StatusOr<PreparedSession> prepared) {
          if (!prepared.ok()) {
            call->read->Finish(prepared.status());
            return;
          }
          auto ready = std::make_shared<std::vector<PreparedSession>>();
          {
            MutexLock lock(preparation->mutex);
            preparation->ready[i] = *std::move(prepared);
            if (--preparation->left > 0) return;
            ready->swap(preparation->ready);
          }
          QueueSearch(call->session, [this, call, ready] {
            Guarded(call->read, [&] { SearchWithOthers(call, *ready); });
          });
        });
  }
}

void Engine::SearchWithOthers(const std::shared_ptr<SearchCall<Found, QueryRequest>>& call,
                              const std::vector<PreparedSession>& others) {
  if (call->read->HasEnded()) return;
  FinishSearch(call, AnswerWithOthers(*call, others));
}

absl::StatusOr<Found> Engine::AnswerWithOthers(const SearchCall<Found, QueryRequest>& call,
                                               const std::vector<PreparedSession>& others) {
  PreparedSession asked{call.request.key, InfoOf(*call.session), call.index};
  if (call.request.AsksBlocks()) {
    MEMORYD_ASSIGN_OR_RETURN(asked.texts, TextsOf(*call.session, call.index));
  }
  return recall_.AnswerWithOthers(std::move(asked), call.request, call.tries_left == 0, others);
}

bool Engine::ShowOthers(
    const std::shared_ptr<SearchCall<UpdatedContext, UpdateContextRequest>>& call,
    const SessionInfo& info) {
  struct Shown {
    Mutex mutex;
    std::map<std::string, BlockContent> contents MEMORYD_GUARDED_BY(mutex);
    std::size_t left MEMORYD_GUARDED_BY(mutex) = 0;
  };
  call->shown.emplace();
  std::vector<std::pair<std::string, std::string>> others;  // Names of blocks and sessions.
  if (info.exists()) {
    for (const BlockSettings& block : info.config->blocks) {
      std::optional<std::string> other = block.OtherSession();
      if (!other.has_value() || *other == call->request.key.session) continue;
      others.emplace_back(block.name, *std::move(other));
    }
  }
  if (others.empty()) return false;
  auto shown = std::make_shared<Shown>();
  {
    MutexLock lock(shown->mutex);
    shown->left = others.size();
  }
  for (const auto& [name, other] : others) {
    RenderRequest render;
    render.deadline = call->read->deadline();
    attached_.ShowStable({call->request.key.tenant, other}, std::move(render),
                         [this, call, shown, name = name](absl::StatusOr<BlockContent> content) {
                           if (content.ok() && !content->missing.empty()) {
                             content = content->missing.front().second;
                           }
                           if (!content.ok()) {
                             call->read->Finish(content.status());
                             return;
                           }
                           {
                             MutexLock lock(shown->mutex);
                             shown->contents.emplace(name, *std::move(content));
                             if (--shown->left > 0) return;
                             call->shown->swap(shown->contents);
                           }
                           QueueStep(call);
                         });
  }
  return true;
}

bool Engine::EmbedQuery(const std::shared_ptr<SearchCall<Found, QueryRequest>>& call,
                        const SessionInfo& info, const BlockState* embeddings) {
  const RankingOptions& ranking = info.config->ranking;
  if (!info.config->EmbedsMessages() || ranking.embedder_weight == 0 || embeddings == nullptr ||
      embeddings->entry_generation == 0 || call->embedded_for == embeddings->entry_generation) {
    return false;
  }
  absl::StatusOr<EmbeddingState> state = EmbeddingState::FromJson(embeddings->state);
  // Before the first embedding there is nothing to compare the query's with.
  if (state.ok() && state->source.size == 0) return false;
  // Others may have come to serve since it was asked.
  call->embedded_for = embeddings->entry_generation;
  call->embedding = {};
  call->embedder_failure.clear();
  if (!state.ok()) {
    call->embedder_failure = MissingReason(state.status());
    return false;
  }
  const auto now = std::chrono::steady_clock::now();
  const auto deadline =
      std::min(now + options_.block_timeout, now + (call->read->deadline() - now) / 2);
  // Apart from names, which say little of what is meant.
  const std::string query = recall_.search().EmbedderQuery(call->index, call->request.query);
  if (query.empty()) return false;
  // That which has made what serves, while the session's makes others.
  ModelName embedder{state->source.worker, state->source.embedder};
  if (embedder.model.empty()) embedder = {ranking.embedder_worker, ranking.embedder};
  call->usage = std::make_shared<UsageCount>();
  memoryd::EmbedQuery(models_, embedder, call->request.key, query, call->usage, call->request.trace,
                      deadline,
                      [this, call, state = *std::move(state)](absl::StatusOr<EmbeddedQuery> said) {
                        absl::Status status = said.status();
                        if (said.ok()) {
                          status = state.source.Accepts(said->source);
                          if (!status.ok()) NoteEmbedder(call->request.key, state, said->source);
                        }
                        if (status.ok()) {
                          call->embedding = {std::move(said->vector), call->embedded_for};
                        } else {
                          call->embedder_failure = MissingReason(status);
                        }
                        QueueStep(call);
                      });
  return true;
}

void Engine::NoteEmbedder(const SessionKey& key, const EmbeddingState& state,
                          const EmbeddingSource& embedder) {
  if (state.next.has_value()) return;
  WriteRequest write;
  write.kind = WriteKind::kNoteEmbedder;
  write.key = key;
  write.embedder = embedder;
  write.deadline = std::chrono::steady_clock::now() + kNoteTime;
  write.encode_reply = [](const WriteResult&) { return std::string(); };
  // If this fails the next Query notes it.
  Submit(std::move(write), [](const absl::Status&, const std::string&, bool) {});
}

absl::StatusOr<std::shared_ptr<const KnownTexts>> Engine::TextsOf(
    CachedSession& place, const SessionSearch::Index& index) {
  std::shared_ptr<const SessionConfig> config;
  std::map<std::string, std::shared_ptr<const BlockState>> states;
  {
    MutexLock lock(place.mutex);
    config = place.session.config;
    if (config->blocks.empty()) return nullptr;
    states = place.session.blocks;
  }
  BlockStates blocks{{place.key, config->counting.profile}, nullptr, {}};
  MEMORYD_ASSIGN_OR_RETURN(blocks.blocks, BlocksOf(place, config));
  for (const std::shared_ptr<const Block>& block : *blocks.blocks) {
    const auto state = states.find(block->name());
    blocks.states.push_back(state == states.end() ? nullptr : state->second);
  }
  MEMORYD_ASSIGN_OR_RETURN(const std::shared_ptr<const TokenCounter> counter,
                           token_rules_.CounterOf(config->counting));
  std::shared_ptr<const KnownTexts> texts =
      recall_.search().TextsOf(index, std::move(blocks),
                               counter == nullptr ? ByteTokenCounter() : *counter, config->ranking);
  return texts->empty() ? nullptr : texts;
}

absl::StatusOr<std::vector<OfferedBlock>> Engine::StableBlocks(
    CachedSession& place, const std::map<std::string, BlockContent>& shown) const {
  std::shared_ptr<const SessionConfig> config;
  std::map<std::string, std::shared_ptr<const BlockState>> states;
  {
    MutexLock lock(place.mutex);
    config = place.session.config;
    if (config->blocks.empty()) return std::vector<OfferedBlock>();
    states = place.session.blocks;
  }
  MEMORYD_ASSIGN_OR_RETURN(const std::shared_ptr<const BlockSet> blocks, BlocksOf(place, config));
  MEMORYD_ASSIGN_OR_RETURN(const std::shared_ptr<const TokenCounter> counter,
                           token_rules_.CounterOf(config->counting));
  const TokenCounter& count = counter == nullptr ? ByteTokenCounter() : *counter;
  std::vector<OfferedBlock> offered;
  for (const std::shared_ptr<const Block>& block : *blocks) {
    absl::StatusOr<BlockContent> content = BlockContent();
    if (const auto other = shown.find(block->name()); other != shown.end()) {
      content = other->second;
    } else if (block->stable()) {
      RenderRequest render;
      render.session = {place.key, config->counting.profile};
      const auto state = states.find(block->name());
      if (state != states.end()) render.state = state->second;
      content = absl::InternalError("a stable block has not answered");
      block->Render(std::move(render),
                    [&content](absl::StatusOr<BlockContent> said) { content = std::move(said); });
    }
    MEMORYD_RETURN_IF_ERROR(content.status());
    std::string text = PlainText(*content);
    if (text.empty()) continue;
    const std::int64_t tokens = count.Count(text);
    offered.push_back({{block->name(), std::move(text)}, tokens, block->priority() > 0});
  }
  return offered;
}

void Engine::QueueSearch(const std::shared_ptr<CachedSession>& session, Executor::Task step) {
  {
    MutexLock lock(session->mutex);
    session->searches.push_back(std::move(step));
    if (session->searching) return;
    session->searching = true;
  }
  searchers_.Submit(session->key.tenant, [this, session] { RunSearches(session); });
}

// One step, and then whoever else waits: a session takes one searcher at the most, and a long
// search gives way to those of other sessions.
void Engine::RunSearches(const std::shared_ptr<CachedSession>& session) {
  Executor::Task step;
  {
    MutexLock lock(session->mutex);
    step = std::move(session->searches.front());
    session->searches.pop_front();
  }
  step();
  {
    MutexLock lock(session->mutex);
    session->searching = !session->searches.empty();
    if (!session->searching) return;
  }
  searchers_.Submit(session->key.tenant, [this, session] { RunSearches(session); });
}

void Engine::Query(QueryRequest request, CallEnd end, Done<Found> done) {
  StartSearch(std::move(request), std::move(end), std::move(done));
}

void Engine::UpdateContext(UpdateContextRequest request, CallEnd end, Done<UpdatedContext> done) {
  StartSearch(std::move(request), std::move(end), std::move(done));
}

void Engine::ForkSession(ForkRequest request, Done<ForkReply> done) {
  const auto read = StartRead<ForkReply>(request.source.tenant, request.deadline, std::move(done));
  if (read == nullptr) return;
  SessionFork::Options options;
  options.store = store_;
  options.bodies = options_.bodies;
  options.run = [this, read, tenant = request.source.tenant](Executor::Task task) {
    executor_.Submit(tenant, [this, read, task = std::move(task)] { Guarded(read, task); });
  };
  options.with_current = [this](std::shared_ptr<CachedSession> session,
                                CachedSession::Waiter current) {
    loader_.WithCurrent(std::move(session), std::move(current));
  };
  options.submit = [this](WriteRequest write, Write::Done written) {
    Submit(std::move(write), std::move(written));
  };
  options.random = options_.random;
  options.answered = [read] { return read->finished(); };
  options.done = [read](absl::StatusOr<ForkReply> reply) { read->Finish(std::move(reply)); };
  std::shared_ptr<CachedSession> source = cache_.Acquire(request.source);
  std::make_shared<SessionFork>(std::move(options), std::move(request), std::move(source))->Start();
}

absl::StatusOr<std::shared_ptr<SessionImport>> Engine::ImportSession(ImportRequest request) {
  if (!request.settings.has_value()) {
    WriteRequest named;
    named.key = request.key;
    named.template_name = request.template_name;
    if (options_.defaults_of) named.defaults_of = &options_.defaults_of;
    MEMORYD_ASSIGN_OR_RETURN(const SessionDefaults defaults, DefaultsFor(named));
    // Of retention it has what it is imported with.
    request.settings = SettingsOfNew(named, {defaults.from, {}});
  } else if (!request.template_name.empty()) {
    request.settings->template_name = request.template_name;
  }
  MEMORYD_ASSIGN_OR_RETURN(SessionConfig config, SessionConfig::Resolve(*request.settings));
  MEMORYD_RETURN_IF_ERROR(CheckBlocks(request.key, *request.settings));
  SessionImport::Options options;
  options.counting = &counting_;
  options.submit = [this](WriteRequest write, Write::Done done) {
    Submit(std::move(write), std::move(done));
  };
  options.random = options_.random;
  return std::make_shared<SessionImport>(std::move(options), std::move(request),
                                         std::make_shared<const SessionConfig>(std::move(config)));
}

void Engine::EraseSubject(EraseRequest request, Done<EraseReceipt> done) {
  const auto read = StartRead<EraseReceipt>(request.tenant, request.deadline, std::move(done));
  if (read == nullptr) return;
  SubjectErase::Options options;
  options.store = store_;
  options.run = [this, read, tenant = request.tenant](Executor::Task task) {
    executor_.Submit(tenant, [this, read, task = std::move(task)] { Guarded(read, task); });
  };
  options.submit = [this](WriteRequest write, Write::Done written) {
    Submit(std::move(write), std::move(written));
  };
  options.forget = [this](const SessionKey& key) { ForgetSession(key); };
  options.done = [read](absl::StatusOr<EraseReceipt> receipt) { read->Finish(std::move(receipt)); };
  std::make_shared<SubjectErase>(std::move(options), std::move(request))->Start();
}

void Engine::ForgetSession(const SessionKey& key) {
  search().Forget(key);
  entries_.Forget(key);
  const std::shared_ptr<CachedSession> session = cache_.Acquire(key);
  MutexLock lock(session->mutex);
  session->blocks.reset();
  session->blocks_of.reset();
}

void Engine::ListSessions(std::string tenant, std::string subject, std::string after,
                          std::int64_t max_sessions, CallEnd end, Done<SessionList> done) {
  const auto read = StartRead<SessionList>(tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  SubmitRead(
      tenant, read,
      [this, read, tenant, subject = std::move(subject), after = std::move(after), max_sessions] {
        const SessionListLimits limits{.max_sessions = max_sessions};
        auto listed = subject.empty() ? store_->ListSessions(tenant, after, limits)
                                      : store_->ListSubject(tenant, subject, after, limits,
                                                            /*tombstones=*/false);
        if (!listed.ok()) {
          read->Finish(listed.status());
          return;
        }
        SessionList list;
        list.more = listed->more;
        for (ListedSession& entry : listed->sessions) {
          auto session = Session::FromStore({std::move(entry.row), {}, {}});
          if (!session.ok()) {
            read->Finish(session.status());
            return;
          }
          list.sessions.emplace_back(
              std::move(entry.session),
              SessionInfo{std::move(session->row), std::move(session->config)});
        }
        read->Finish(std::move(list));
      });
}

absl::Status Engine::CheckStore() {
  absl::Status status = store_->Ping();
  if (options_.coherence == Coherence::kExclusive) {
    // Another server may write from the moment the lock is lost: what is cached proves nothing
    // until this server holds it again and has read anew. A store that is only busy is not lost.
    if (!status.ok() && !absl::IsDeadlineExceeded(status)) {
      serving_.store(false);
    } else if (status.ok() && !serving_.load()) {
      cache_.Clear();
      serving_.store(true);
    }
  }
  return status;
}

std::unique_ptr<SessionExpiry> Engine::MakeExpiry() {
  SessionExpiry::Options expiry;
  expiry.store = store_;
  expiry.cache = &cache_;
  expiry.stats = &stats_;
  expiry.max_active_bytes = options_.max_active_bytes;
  expiry.submit = [this](WriteRequest write, Write::Done done) {
    Submit(std::move(write), std::move(done));
  };
  expiry.now_us = options_.now_us;
  expiry.stopping = [this] { return IsStopping(); };
  return std::make_unique<SessionExpiry>(std::move(expiry));
}

bool Engine::IsStopping() {
  MutexLock lock(mutex_);
  return stopping_;
}

void Engine::Sweep() {
  auto sweep_at = std::chrono::steady_clock::now() + options_.sweep_interval;
  for (;;) {
    const auto next = std::min(sweep_at, std::chrono::steady_clock::now() + kFlushReads);
    {
      MutexLock lock(mutex_);
      while (!stopping_ && std::chrono::steady_clock::now() < next) {
        changed_.WaitUntil(mutex_, next);
      }
      if (stopping_) return;
    }
    const bool is_due = std::chrono::steady_clock::now() >= sweep_at;
    try {
      is_due ? SweepOnce() : expiry_->FlushReads();
    } catch (...) {
      Increment(stats_.exceptions);
    }
    if (is_due) sweep_at = std::chrono::steady_clock::now() + options_.sweep_interval;
  }
}

void Engine::SweepOnce() {
  // Other servers store too.
  if (quotas_ != nullptr && loader_.shared()) quotas_->Refresh();
  // What it deletes is purged at once.
  if (serving_.load(std::memory_order_relaxed)) expiry_->Sweep();
  const PurgeLimits limits{
      options_.now_us(),
      std::chrono::duration_cast<std::chrono::microseconds>(options_.keep_requests).count(),
      kSweepRows};
  for (;;) {
    const auto purged = store_->Purge(limits);
    // An error shows in health checks; the next sweep tries again.
    if (!purged.ok() || *purged < kSweepRows) break;
    MutexLock lock(mutex_);
    if (stopping_) return;
  }
}

}  // namespace memoryd
