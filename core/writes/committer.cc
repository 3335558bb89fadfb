#include "core/writes/committer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/failpoint.h"
#include "core/base/histogram.h"
#include "core/base/mutex.h"
#include "core/calls/tenant_queue.h"
#include "core/calls/wake_scope.h"
#include "core/model/job.h"
#include "core/sessions/session_cache.h"
#include "core/sessions/session_errors.h"
#include "core/storage/store.h"
#include "core/writes/command.h"
#include "core/writes/draft/session_draft.h"
#include "core/writes/incoming.h"
#include "core/writes/write.h"

namespace memoryd {
namespace {

constexpr std::size_t kMaxGroups = 256;
constexpr std::size_t kMaxWrites = 1024;
constexpr std::size_t kMaxBytes = std::size_t{8} << 20;
constexpr std::size_t kMaxMessagesPerGroup = 1000;
// What a write costs its tenant beside its bytes, so that many small ones count too.
constexpr std::int64_t kWriteCost = 4096;
// A batch in which everybody waits longer than this is not worth the round trip it saves, and nears
// the store's timeout.
constexpr std::chrono::milliseconds kMaxBatchTime(250);
// A session that lost this often in a row is written without company, so that the batches of
// others are not done twice on its account.
constexpr int kLossesBeforeAlone = 3;

// Which ids the caller gave; the store does not say which one is taken.
std::string FieldOfIds(const IncomingItems& items) {
  if (items.contents.empty()) return "messages.message_id";
  if (items.messages.empty()) return "contents.content_id";
  return "messages.message_id or contents.content_id";
}

}  // namespace

Committer::Committer(Options options) : options_(std::move(options)) {}

void Committer::Enqueue(std::shared_ptr<Write> write) {
  ReachFailpoint("write_queued");
  bool was_empty = false;
  {
    MutexLock lock(mutex_);
    was_empty = queue_.empty();
    // The session is the write's as long as the write is there.
    const std::string& tenant = write->session->key.tenant;
    queue_.Push(tenant, std::move(write));
    writes_.fetch_add(1, std::memory_order_relaxed);
  }
  if (was_empty) worker_.Wake();
}

std::chrono::nanoseconds Committer::ExpectedWait(std::string_view tenant) {
  MutexLock lock(mutex_);
  const std::size_t own = queue_.SizeOf(tenant);
  const std::size_t tenants = queue_.WaitingTenants() + (own == 0 ? 1 : 0);
  const std::size_t all = writes_.load(std::memory_order_relaxed);
  const std::size_t under_way = all - std::min(all, queue_.size());
  return pace_.Expected(under_way + std::min((own + 1) * tenants, queue_.size()));
}

void Committer::CommitQueued() {
  for (;;) {
    std::vector<Group> batch;
    {
      MutexLock lock(mutex_);
      if (queue_.empty()) return;
      batch = TakeBatch();
    }
    std::size_t taken = 0;
    for (const Group& group : batch) taken += group.writes.size();
    CommitBatch(batch);
    writes_.fetch_sub(taken, std::memory_order_relaxed);
  }
}

std::vector<Committer::Group> Committer::TakeBatch() {
  std::vector<Group> groups;
  std::unordered_map<const CachedSession*, std::size_t> index;
  struct Left {
    TenantQueue<std::shared_ptr<Write>>::Turn turn;
    std::shared_ptr<Write> write;
    bool solitary = false;  // Must open a batch, so it opens the next one.
  };
  std::vector<Left> left;
  std::size_t writes = 0;
  std::size_t bytes = 0;
  bool full = false;
  while (!queue_.empty() && !full) {
    auto [turn, write] = queue_.Take();
    const bool solitary = write->session->lost_in_a_row >= kLossesBeforeAlone;
    const auto found = index.find(write->session.get());
    if (found != index.end()) {
      // Once one write of a session waits, its later ones wait too.
      Group& group = groups[found->second];
      std::size_t messages = write->request.RowCount();
      for (const auto& other : group.writes) messages += other->request.RowCount();
      if (group.closed || write->alone || !SessionDraft::CanShare(*write) ||
          messages > kMaxMessagesPerGroup) {
        group.closed = true;
        left.push_back({turn, std::move(write)});
        continue;
      }
    } else {
      if (solitary && !groups.empty()) {
        left.push_back({turn, std::move(write), /*solitary=*/true});
        continue;
      }
      index.emplace(write->session.get(), groups.size());
      Group& group = groups.emplace_back();
      group.session = write->session;
      group.closed = write->alone || !SessionDraft::CanShare(*write);
    }
    ++writes;
    bytes += write->request.byte_size;
    queue_.EndTurn(turn, static_cast<std::int64_t>(write->request.byte_size) + kWriteCost);
    groups[index.at(write->session.get())].writes.push_back(std::move(write));
    full = solitary || groups.size() >= kMaxGroups || writes >= kMaxWrites || bytes >= kMaxBytes ||
           pace_.Expected(writes) >= kMaxBatchTime;
  }
  while (!left.empty()) {
    queue_.PutBack(left.back().turn, std::move(left.back().write), left.back().solitary);
    left.pop_back();
  }
  return groups;
}

void Committer::CommitBatch(std::vector<Group>& groups) {
  std::vector<SessionChange> changes;
  std::vector<Group*> changed;
  changes.reserve(groups.size());
  changed.reserve(groups.size());
  for (Group& group : groups) {
    try {
      DraftGroup(group);
      if (!group.draft.has_value() || !group.draft->dirty()) continue;
      if (!group.draft->jobs().empty() && options_.jobs->HasRoom()) {
        group.draft->LeaseJobs(options_.jobs->lease(),
                               std::chrono::microseconds(options_.jobs->lease_time()).count());
      }
      MutexLock lock(group.session->mutex);
      group.change = group.draft->Change();
      group.session->committing = true;
      changes.push_back(group.draft->TakeChange(group.session->key));
      changed.push_back(&group);
    } catch (...) {
      Abandon(group, {CommitOutcome::kFailed, CaughtException()});
      EndCommit(*group.session);
    }
  }
  if (changes.empty()) return;
  std::size_t writes = 0;
  for (const Group* group : changed) writes += group->stored.size();
  options_.stats->batch_writes.Observe(static_cast<std::int64_t>(writes));
  bool sent = false;
  std::vector<CommitResult> results;
  try {
    ReachFailpoint("batch_drafted");
    sent = true;
    const auto begin = std::chrono::steady_clock::now();
    results = options_.store->Commit(changes);
    pace_.Observe(writes, std::chrono::steady_clock::now() - begin);
    ReachFailpoint("commit_answered");
  } catch (...) {
    const CommitResult result = {sent ? CommitOutcome::kUnknown : CommitOutcome::kFailed,
                                 CaughtException()};
    for (Group* const group : changed) {
      Abandon(*group, result);
      EndCommit(*group->session);
    }
    return;
  }
  const WakeScope replies(AtEndOfBatch());
  for (std::size_t i = 0; i < changed.size(); ++i) {
    try {
      Conclude(*changed[i], results[i]);
    } catch (...) {
      Abandon(*changed[i], results[i]);
    }
    EndCommit(*changed[i]->session);
  }
}

WakeScope::AtEnd Committer::AtEndOfBatch() {
  MutexLock lock(mutex_);
  return queue_.empty() ? WakeScope::AtEnd::kVisit : WakeScope::AtEnd::kWakeUp;
}

void Committer::EndCommit(CachedSession& session) {
  std::vector<std::function<void()>> waiting;
  {
    MutexLock lock(session.mutex);
    session.committing = false;
    waiting.swap(session.after_commit);
  }
  for (const std::function<void()>& done : waiting) done();
}

// One that may be stored is not counted twice.
void Committer::SettleUsage(Group& group, CommitOutcome outcome) {
  if (std::exchange(group.usage, {}) == Usage()) return;
  options_.usage->Settle(group.session->key, outcome == CommitOutcome::kCommitted ||
                                                 outcome == CommitOutcome::kUnknown);
}

void Committer::Abandon(Group& group, const CommitResult& result) {
  Increment(options_.stats->exceptions);
  SettleUsage(group, result.outcome);
  if (options_.quotas != nullptr) {
    options_.quotas->Settle(group.session->key.tenant, std::exchange(group.reserved, {}),
                            result.outcome, std::exchange(group.change, {}));
  }
  {
    // The next one reads it anew: what the session in memory is by now is anybody's guess.
    MutexLock lock(group.session->mutex);
    group.session->Forget();
  }
  // Replies that were not given away are what is stored.
  for (auto& [write, reply] : group.stored) {
    if (result.outcome == CommitOutcome::kCommitted) {
      write->Finish(std::move(reply));
    } else if (result.outcome == CommitOutcome::kUnknown) {
      write->Finish(OutcomeUnknown());
    }
  }
  // The others, of whatever kind, were not stored. What is queued anew ends here all the same.
  const absl::Status status =
      result.status.ok() ? absl::InternalError("an exception ended the batch") : result.status;
  for (const auto& write : group.writes) write->Finish(status);
}

SessionDraft::Decision Committer::Add(Group& group, Write& write) {
  if (options_.quotas == nullptr) return group.draft->Add(write);
  const std::string& tenant = group.session->key.tenant;
  const TenantUsage growth = group.draft->Growth(write);
  if (absl::Status status = options_.quotas->Reserve(tenant, growth, group.reserved);
      !status.ok()) {
    // Else it is decided again.
    const bool is_final = !group.draft->dirty() && (!options_.shared || write.fresh);
    if (is_final) options_.quotas->CountRefusal(status);
    return {SessionDraft::Decision::Kind::kRefused, std::move(status)};
  }
  SessionDraft::Decision decision = group.draft->Add(write);
  if (decision.kind != SessionDraft::Decision::Kind::kStore) {
    options_.quotas->Release(tenant, growth, group.reserved);
  }
  return decision;
}

void Committer::DraftGroup(Group& group) {
  const auto now = std::chrono::steady_clock::now();
  const bool usage_known =
      options_.quotas == nullptr || options_.quotas->Knows(group.session->key.tenant);
  Undecided undecided;
  {
    MutexLock lock(group.session->mutex);
    if (group.session->loaded) {
      group.draft.emplace(group.session->session, *options_.token_rules, options_.clock->NowUs(),
                          *options_.random, options_.max_active_bytes);
    }
    // Copied, so that all of them can be told should something be thrown.
    for (const std::shared_ptr<Write>& write : group.writes) {
      if (write->deadline() <= now) {
        undecided.to_answer.push_back(
            {write,
             {SessionDraft::Decision::Kind::kReplay,
              absl::DeadlineExceededError("the deadline passed before the write "
                                          "joined a batch; nothing was stored")}});
        continue;
      }
      if (!write->BeginCommit()) continue;
      if (!group.draft.has_value()) {
        undecided.to_reload.push_back(write);
      } else if (!usage_known) {
        undecided.to_await_usage.push_back(write);
      } else {
        Decide(group, write, undecided);
      }
    }
    if (options_.usage != nullptr && group.draft.has_value() && group.draft->dirty()) {
      group.usage = options_.usage->Take(group.session->key);
      group.draft->AddUsage(group.usage);
    }
  }
  HandOn(std::move(undecided));
}

void Committer::Decide(Group& group, const std::shared_ptr<Write>& write, Undecided& undecided) {
  SessionDraft::Decision decision = Add(group, *write);
  switch (decision.kind) {
    case SessionDraft::Decision::Kind::kStore:
      group.stored.emplace_back(write, *std::move(decision).Answer());
      break;
    case SessionDraft::Decision::Kind::kReplay:
      if (options_.shared && !write->fresh) {
        // Another server may have erased what is remembered here.
        undecided.to_reload.push_back(write);
      } else {
        undecided.to_answer.push_back({write, std::move(decision)});
      }
      break;
    case SessionDraft::Decision::Kind::kCount:
      undecided.to_count.push_back(write);
      break;
    case SessionDraft::Decision::Kind::kUnchanged:
    case SessionDraft::Decision::Kind::kRefused:
      if (group.draft->dirty()) {
        // Decided on what is not durable yet; next time before any other.
        write->alone = true;
        undecided.to_requeue.push_back(write);
      } else if (options_.shared && !write->fresh) {
        undecided.to_reload.push_back(write);
      } else if (!write->request.request_id.empty()) {
        undecided.to_look_up.push_back({write, std::move(decision)});
      } else {
        undecided.to_answer.push_back({write, std::move(decision)});
      }
      break;
  }
}

void Committer::HandOn(Undecided undecided) {
  const WakeScope replies;
  for (Undecided::Decided& decided : undecided.to_answer) {
    decided.write->Finish(std::move(decided.decision).Answer());
  }
  for (auto& write : undecided.to_requeue) Requeue(std::move(write));
  for (auto& write : undecided.to_reload) {
    write->BackToQueue();
    options_.undecided->Reload(std::move(write));
  }
  for (auto& write : undecided.to_await_usage) {
    write->BackToQueue();
    options_.undecided->ReadUsage(std::move(write));
  }
  for (auto& write : undecided.to_count) {
    write->BackToQueue();
    options_.undecided->Count(std::move(write));
  }
  // The refusal came first: no record now means that there was none when it was decided.
  for (Undecided::Decided& decided : undecided.to_look_up) {
    decided.write->BackToQueue();
    options_.undecided->LookUp(std::move(decided.write), std::move(decided.decision));
  }
}

void Committer::Conclude(Group& group, const CommitResult& result) {
  CachedSession& session = *group.session;
  if (options_.quotas != nullptr) {
    options_.quotas->Settle(session.key.tenant, std::exchange(group.reserved, {}), result.outcome,
                            std::exchange(group.change, {}));
  }
  if (result.outcome == CommitOutcome::kCommitted) {
    Acknowledge(group);
    return;
  }
  SettleUsage(group, result.outcome);
  if (result.outcome == CommitOutcome::kUnknown) {
    MutexLock lock(session.mutex);
    session.Forget();
  }
  if (result.outcome == CommitOutcome::kRevisionLost) ++session.lost_in_a_row;
  const bool lone = group.stored.size() == 1;
  for (const auto& [write, reply] : group.stored) EndUnstored(write, lone, result);
}

void Committer::Acknowledge(Group& group) {
  CachedSession& session = *group.session;
  std::size_t bytes = 0;
  {
    MutexLock lock(session.mutex);
    group.draft->ApplyTo(session.session);
    // Under the same lock, so that nobody finds it in both places or in none.
    SettleUsage(group, CommitOutcome::kCommitted);
    // A load that began before the commit must not put its older state back.
    if (!session.loaded || group.draft->must_load()) session.Forget();
    bytes = session.session.ByteSize();
  }
  ReachFailpoint("session_applied");
  session.lost_in_a_row = 0;
  if (const std::int64_t retired = group.draft->retired_messages(); retired > 0) {
    Increment(options_.stats->retired_messages, static_cast<std::uint64_t>(retired));
  }
  // Before the replies, so that a caller's next read finds what he wrote.
  options_.cache->Recharge(group.session, bytes);
  // Before the replies, so that a caller who waits for his jobs finds them.
  const std::vector<Job>& jobs = group.draft->jobs();
  for (const auto& [write, reply] : group.stored) {
    if (write->usage != nullptr) options_.jobs->Count(write->jobs, write->usage);
    if (write->request.trace != nullptr && !write->jobs.empty()) {
      options_.jobs->Trace(write->jobs, write->request.trace);
    }
  }
  if (!jobs.empty() && jobs.front().lease != 0) options_.jobs->Start(group.session, jobs);
  for (auto& [write, reply] : group.stored) write->Finish(std::move(reply));
}

void Committer::EndUnstored(const std::shared_ptr<Write>& write, bool lone,
                            const CommitResult& result) {
  switch (result.outcome) {
    case CommitOutcome::kCommitted:
      break;
    case CommitOutcome::kUnknown:
      write->Finish(OutcomeUnknown());
      break;
    case CommitOutcome::kFailed:
      write->Finish(absl::IsUnavailable(result.status) ? StoreUnavailable() : result.status);
      break;
    case CommitOutcome::kMessageIdTaken:
      if (!lone) {
        write->alone = true;
        Requeue(write);
        break;
      }
      Refuse(write, Error(absl::StatusCode::kAlreadyExists, "MESSAGE_ID_EXISTS",
                          "a message_id or content_id is stored already; nothing was stored",
                          {{"field", FieldOfIds(ItemsOf(write->request.command))}}));
      break;
    case CommitOutcome::kRequestIdTaken:
      // Not every write of the group need be the one with the record.
      write->alone = true;
      write->BackToQueue();
      options_.undecided->LookUp(write, std::nullopt);
      break;
    case CommitOutcome::kRevisionLost:
      write->BackToQueue();
      options_.undecided->Reload(write);
      break;
  }
}

void Committer::Refuse(const std::shared_ptr<Write>& write, absl::Status status) {
  if (write->request.request_id.empty()) {
    write->Finish(std::move(status));
    return;
  }
  write->BackToQueue();
  options_.undecided->LookUp(
      write, SessionDraft::Decision{SessionDraft::Decision::Kind::kRefused, std::move(status)});
}

void Committer::Requeue(std::shared_ptr<Write> write) {
  write->BackToQueue();
  Enqueue(std::move(write));
}

}  // namespace memoryd
