#include "core/writes/write_path.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/histogram.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/blocks/block_traits.h"
#include "core/calls/admission.h"
#include "core/model/job.h"
#include "core/model/session_config.h"
#include "core/sessions/session_cache.h"
#include "core/sessions/session_errors.h"
#include "core/sessions/session_info.h"
#include "core/sessions/session_reader.h"
#include "core/writes/admit_in_time.h"
#include "core/writes/command.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/commands/sessions.h"
#include "core/writes/commands/sweep.h"
#include "core/writes/committer.h"
#include "core/writes/draft/requested_config.h"
#include "core/writes/draft/session_draft.h"
#include "core/writes/found_messages.h"
#include "core/writes/incoming.h"
#include "core/writes/message_lookup.h"
#include "core/writes/token_counting.h"
#include "core/writes/write.h"

namespace memoryd {
namespace {

// How often the message of a write is looked for that has changed by the time of the commit. Each
// time somebody else has been successful, so that the more there are the more tries it takes.
constexpr int kFindTries = 100;
// What takes a store a millisecond or more.
constexpr std::size_t kLargeRows = 100;
constexpr std::size_t kLargeBytes = std::size_t{256} << 10;

// Whether a Put archives messages of the session before it can be decided on.
bool MakesRoom(CachedSession& place) {
  MutexLock lock(place.mutex);
  return place.loaded && !place.session.whole &&
         place.session.config->policy == PolicyKind::kFifo &&
         place.session.config->counting.profile == Profile::kDefault;
}

// Whether something must be found before the write is decided on.
bool MustFind(const WriteRequest& request) {
  switch (TraitsOf(request.command).finds) {
    case CommandTraits::Finds::kNothing:
      return false;
    case CommandTraits::Finds::kNamed:
      return true;
    case CommandTraits::Finds::kEvidence:
      return !std::get<commands::EditFact>(request.command).fact.evidence.empty();
    case CommandTraits::Finds::kRoles:
      return MustCheckRoles(request);
  }
  return false;
}

}  // namespace

WritePath::WritePath(Options options) : options_(std::move(options)) {
  const int committers = options_.committers + (options_.large_writes_apart ? 1 : 0);
  for (int i = 0; i < committers; ++i) {
    Committer::Options committer;
    committer.store = options_.store;
    committer.cache = options_.cache;
    committer.token_rules = options_.token_rules;
    committer.stats = &options_.calls->stats();
    committer.shared = options_.loader->shared();
    committer.clock = options_.clock;
    committer.random = options_.random;
    committer.max_active_bytes = options_.max_active_bytes;
    committer.jobs = options_.jobs;
    committer.undecided = this;
    committer.usage = options_.usage;
    committer.quotas = options_.quotas;
    if (i == options_.committers) {
      // PostgreSQL writes large ones by a statement each, so each is answered by itself.
      committer.max_rows = kLargeRows;
      committer.max_bytes = kLargeBytes;
    }
    committers_.push_back(std::make_unique<Committer>(std::move(committer)));
  }
}

WritePath::~WritePath() = default;

// ---- admission ----

absl::Status WritePath::CheckTime(const WriteRequest& request) {
  Committer& committer = *committers_[CommitterFor(request)];
  const auto wait = committer.ExpectedWait();
  if (wait == wait.zero()) return absl::OkStatus();
  const absl::Status status = AdmitInTime(
      wait, [&] { return committer.ExpectedWait(request.key.tenant); },
      request.deadline - std::chrono::steady_clock::now());
  if (!status.ok()) Increment(options_.calls->stats().refused_late);
  return status;
}

absl::StatusOr<Admission::Place> WritePath::Admit(const WriteRequest& request) {
  const bool forced = IsForced(request.command);
  if (!forced) MEMORYD_RETURN_IF_ERROR(CheckTime(request));
  return options_.calls->Admit(request.key.tenant, static_cast<std::int64_t>(request.byte_size),
                               forced);
}

void WritePath::Submit(WriteRequest request, Write::Done done) {
  if (MustFind(request)) {
    FindAndSubmit(std::make_shared<const WriteRequest>(std::move(request)), done, kFindTries);
  } else {
    SubmitFound(std::move(request), std::move(done));
  }
}

void WritePath::FindAndSubmit(const std::shared_ptr<const WriteRequest>& request,
                              const Write::Done& done, int tries) {
  const auto submit = [this, request, done, tries](absl::StatusOr<FoundMessages> found) {
    if (!found.ok()) {
      done(found.status());
      return;
    }
    WriteRequest write = *request;
    if (found->status.ok()) found->status = Complete(write.command, *found);
    write.found = *std::move(found);
    std::shared_ptr<const WriteRequest> next = request;
    if (MustCheckRoles(write)) {
      // Another look begins where this one ended.
      auto looked = std::make_shared<WriteRequest>(*request);
      looked->found = write.found;
      next = std::move(looked);
    }
    SubmitFound(std::move(write),
                [this, next = std::move(next), done, tries](absl::StatusOr<WriteReply> reply) {
                  const std::string reason = ErrorReason(reply.status());
                  if (tries > 1 && (reason == "MESSAGE_CHANGED" || reason == "CONTENT_CHANGED")) {
                    FindAndSubmit(next, done, tries - 1);
                  } else {
                    done(std::move(reply));
                  }
                });
  };
  const auto read =
      options_.calls->Begin<FoundMessages>(request->key.tenant, request->deadline, submit);
  if (read == nullptr) return;
  const std::shared_ptr<CachedSession> session = options_.reader->Acquire(request->key);
  options_.reader->RunCurrent(session, read, [this, session, read, request] {
    read->Finish(FindMessages(*options_.store, *options_.bodies, InfoOf(*session), *request));
  });
}

std::shared_ptr<Write> WritePath::Begin(WriteRequest request, Admission::Place place,
                                        Write::Done done) {
  // Lives as long as the write, which may be longer than the call: one that expired keeps its place
  // in a queue until the store moves on.
  struct Admitted {
    Admission::Place place;
    const Write* write = nullptr;
  };
  auto admitted = std::make_shared<Admitted>();
  admitted->place = std::move(place);
  std::shared_ptr<CachedSession> session = options_.reader->Acquire(request.key);
  auto write = std::make_shared<Write>(
      std::move(request), std::move(session),
      [this, admitted, done = std::move(done)](absl::StatusOr<WriteReply> reply) {
        options_.calls->pending().Remove(admitted->write);
        if (!reply.ok()) {
          done(std::move(reply));
        } else if (reply->replayed) {
          Increment(options_.calls->stats().replays);
          done(std::move(reply));
        } else {
          Reply(*admitted->write, *std::move(reply), done);
        }
      });
  admitted->write = write.get();
  options_.calls->pending().Add(write);
  return write;
}

void WritePath::SubmitFound(WriteRequest request, Write::Done done) {
  if (*options_.defaults_of && TraitsOf(request.command).takes_defaults) {
    request.defaults_of = options_.defaults_of;
  }
  auto place = Admit(request);
  if (!place.ok()) {
    done(place.status());
    return;
  }
  const auto write = Begin(std::move(request), *std::move(place), std::move(done));
  const std::shared_ptr<CachedSession>& session = write->session;
  bool loaded = false;
  {
    MutexLock lock(session->mutex);
    loaded = session->loaded;
  }
  EngineStats& stats = options_.calls->stats();
  Increment(loaded ? stats.cache_hits : stats.cache_misses);
  const auto enqueue = [this, write] {
    options_.calls->Guarded(write, [&] {
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
  options_.loader->WithLoaded(session, /*anew=*/false,
                              {[enqueue, write](const absl::Status& status) {
                                 if (status.ok()) {
                                   enqueue();
                                 } else {
                                   write->Finish(status);
                                 }
                               },
                               [write] { return write->finished(); }});
}

absl::Status WritePath::CheckBlocks(const Write& write) const {
  const WriteRequest& request = write.request;
  const RequestedConfig& asked = ConfigOf(request.command);
  if (asked.empty()) return absl::OkStatus();
  SessionSettings settings = asked.settings.value_or(SessionSettings());
  if (std::holds_alternative<commands::UpdateSession>(request.command)) {
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
  if (!settings.blocks.has_value()) return absl::OkStatus();
  ReadTraits(*settings.blocks, settings.profile.value_or(Profile::kDefault));
  MEMORYD_RETURN_IF_ERROR(CheckOtherSessions(write.session->key, *settings.blocks));
  return options_.blocks->Check(settings);
}

// ---- counting ----

std::optional<CountingRules> WritePath::CountingRulesOf(const Write& write) {
  {
    MutexLock lock(write.session->mutex);
    if (!write.session->loaded) return std::nullopt;
    if (write.session->session.exists()) return write.session->session.config->counting;
  }
  const auto defaults = DefaultsFor(write.request);
  if (!defaults.ok()) return std::nullopt;
  const std::optional<SessionSettings>& asked = ConfigOf(write.request.command).settings;
  if (defaults->from == nullptr && !asked.has_value()) return CountingRules();
  auto resolved =
      SessionConfig::Resolve(defaults->from == nullptr ? *asked : defaults->from->settings);
  if (!resolved.ok()) return std::nullopt;
  return resolved->counting;
}

// The committer has to count again only when the configuration turns out to be another one. Errors
// of what was asked are its business too.
void WritePath::CountAndEnqueue(std::shared_ptr<Write> write) {
  std::optional<CountingRules> rules = CountingRulesOf(*write);
  CountProgress progress;
  absl::StatusOr<bool> all = true;
  if (rules.has_value()) {
    all = options_.token_rules->CountWithin(*rules, ItemsOf(write->request.command),
                                            TokenRules::kCheapCost, progress);
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

void WritePath::CountApart(const std::shared_ptr<Write>& write, CountingRules rules,
                           CountProgress progress) {
  auto task = std::make_shared<TokenCounting::Task>();
  task->tenant = write->session->key.tenant;
  task->rules = rules;
  task->items = &ItemsOf(write->request.command);
  task->progress = std::move(progress);
  task->has_ended = [write] { return write->finished(); };
  task->done = [this, write, rules = std::move(rules)](absl::StatusOr<TokenCounts> counts) {
    options_.calls->Guarded(write, [&] {
      if (!counts.ok()) {
        write->Finish(counts.status());
        return;
      }
      write->token_counts = *std::move(counts);
      write->counted_with = rules;
      Enqueue(write);
    });
  };
  options_.counting->Start(std::move(task));
}

void WritePath::Count(std::shared_ptr<Write> write) {
  options_.calls->Guarded(write, [&] { CountApart(write, *write->count_with, {}); });
}

// ---- committers ----

std::size_t WritePath::CommitterFor(const WriteRequest& request) const {
  const auto shares = static_cast<std::size_t>(options_.committers);
  const bool large = request.byte_size >= kLargeBytes || RowsOf(request.command) >= kLargeRows;
  if (large && options_.large_writes_apart) return shares;
  return SessionKeyHash()(request.key) % shares;
}

void WritePath::Enqueue(std::shared_ptr<Write> write) {
  if (std::holds_alternative<commands::Put>(write->request.command) && MakesRoom(*write->session)) {
    ArchiveOldest(std::move(write));
    return;
  }
  CachedSession& session = *write->session;
  std::size_t owner = 0;
  {
    MutexLock lock(session.mutex);
    if (session.writes == 0) session.committer = CommitterFor(write->request);
    ++session.writes;
    owner = session.committer;
  }
  committers_[owner]->Enqueue(std::move(write));
}

void WritePath::ArchiveOldest(std::shared_ptr<Write> write) {
  options_.calls->RunAdmitted(write->session->key.tenant, [this, write] {
    options_.calls->Guarded(write, [&] {
      if (!write->finished()) ArchivePiece(write);
    });
  });
}

void WritePath::ArchivePiece(const std::shared_ptr<Write>& write) {
  WriteRequest archive;
  archive.key = write->session->key;
  archive.subject = write->request.subject;
  archive.deadline = write->deadline();
  auto taken = TakeForOldest(*options_.memory, archive.key.tenant);
  if (!taken.ok()) {
    write->Finish(taken.status());
    return;
  }
  auto memory = std::make_shared<MemoryBudget::Hold>(*std::move(taken));
  const SessionInfo info = InfoOf(*write->session);
  auto oldest = ReadOldest(*options_.store, archive.key, info.row, info.config->user_roles);
  if (!oldest.ok()) {
    write->Finish(Reported(oldest.status()));
    return;
  }
  archive.command = commands::ArchiveOldest{*std::move(oldest)};
  SubmitFound(std::move(archive),
              [this, write, memory](const absl::StatusOr<WriteReply>& archived) {
                memory->Release();
                if (archived.ok()) {
                  options_.calls->Guarded(write, [&] { Enqueue(write); });
                } else {
                  write->Finish(archived.status());
                }
              });
}

void WritePath::Reload(std::shared_ptr<Write> write) {
  std::shared_ptr<CachedSession> session = write->session;
  options_.loader->WithLoaded(std::move(session), /*anew=*/true,
                              [this, write](const absl::Status& status) {
                                if (!status.ok()) {
                                  write->Finish(status);
                                  return;
                                }
                                write->fresh = true;
                                options_.calls->Guarded(write, [&] { Enqueue(write); });
                              });
}

void WritePath::ReadUsage(std::shared_ptr<Write> write) {
  const std::string& tenant = write->session->key.tenant;
  options_.quotas->Read(tenant, [this, write](const absl::Status& status) {
    if (status.ok()) {
      options_.calls->Guarded(write, [&] { Enqueue(write); });
    } else {
      write->Finish(Reported(status));
    }
  });
}

void WritePath::LookUp(std::shared_ptr<Write> write,
                       std::optional<SessionDraft::Decision> otherwise) {
  const std::string& tenant = write->session->key.tenant;
  options_.calls->RunAdmitted(tenant, [this, write, otherwise = std::move(otherwise)] {
    options_.calls->Guarded(write, [&] { Answer(write, otherwise); });
  });
}

void WritePath::Answer(const std::shared_ptr<Write>& write,
                       const std::optional<SessionDraft::Decision>& otherwise) {
  const WriteRequest& request = write->request;
  const auto records = options_.store->FindRequests(request.key, {&request.request_id, 1});
  if (!records.ok()) {
    // An earlier call with this request_id may have stored it.
    write->Finish(absl::IsUnavailable(records.status()) ? OutcomeUnknown() : records.status());
  } else if (const auto& record = records->front(); record.has_value()) {
    auto reply = ReplyOf(*record, request.fingerprint);
    if (reply.ok()) {
      write->Finish(WriteReply{{}, *std::move(reply), /*replayed=*/true});
    } else {
      write->Finish(reply.status());
    }
  } else if (otherwise.has_value()) {
    write->Finish(SessionDraft::Decision(*otherwise).Answer());
  } else {
    Enqueue(write);
  }
}

void WritePath::Reply(const Write& write, WriteReply reply, const Write::Done& done) {
  const auto& with_open_jobs = write.request.with_open_jobs;
  if (write.jobs.empty() || with_open_jobs == nullptr) {
    done(std::move(reply));
    return;
  }
  const auto& wait_until = write.request.wait_until;
  if (!write.WaitsForJobs()) {
    std::vector<OpenJob> open;
    open.reserve(write.jobs.size());
    for (const JobKey& job : write.jobs) open.push_back({job, JobState::kOpen, {}});
    reply.encoded = with_open_jobs(std::move(reply.encoded), open, {});
    done(std::move(reply));
    return;
  }
  using Deadline = Calls::Deadline;
  const Deadline deadline = std::min(wait_until.value_or(Deadline::max()), write.deadline());
  options_.jobs->Wait(*write.session, write.jobs, /*one_attempt=*/!wait_until.has_value(), deadline,
                      // Not the result: it would keep what was put until the jobs have ended.
                      [done, with_open_jobs, encoded = std::move(reply.encoded),
                       usage = write.usage](const std::vector<OpenJob>& open) {
                        WriteReply waited;
                        waited.encoded = with_open_jobs(encoded, open, usage->Total());
                        done(std::move(waited));
                      });
}

}  // namespace memoryd
