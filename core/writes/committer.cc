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

#include "absl/cleanup/cleanup.h"
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
// What a write and each of its rows cost beside their bytes: that is the greater part of small
// ones.
constexpr std::int64_t kWriteCost = 4096;
constexpr std::int64_t kRowCost = 1024;
// A batch in which everybody waits longer than this is not worth the round trip it saves, and nears
// the store's timeout.
constexpr std::chrono::milliseconds kMaxBatchTime(250);
// A session that lost this often in a row is written without company, so that the batches of
// others are not done twice on its account.
constexpr int kLossesBeforeAlone = 3;

std::int64_t CostOf(const WriteRequest& request) {
  return kWriteCost + static_cast<std::int64_t>(request.byte_size) +
         kRowCost * static_cast<std::int64_t>(RowsOf(request.command));
}

// Which ids the caller gave; the store does not say which one is taken.
std::string FieldOfIds(const IncomingItems& items) {
  if (items.contents.empty()) return "messages.message_id";
  if (items.messages.empty()) return "contents.content_id";
  return "messages.message_id or contents.content_id";
}

}  // namespace

Committer::Committer(Options options) : options_(std::move(options)) {}

void Committer::Enqueue(std::shared_ptr<Write> write) {
  const std::shared_ptr<CachedSession> session = write->session;
  absl::Cleanup take_off = [&session] {
    MutexLock lock(session->mutex);
    --session->writes;
  };
  ReachFailpoint("write_queued");
  bool was_empty = false;
  {
    MutexLock lock(mutex_);
    was_empty = queue_.empty();
    const std::int64_t cost = CostOf(write->request);
    queue_.Push(session->key.tenant, std::move(write));
    cost_.fetch_add(cost, std::memory_order_relaxed);
    queued_cost_ += cost;
  }
  std::move(take_off).Cancel();
  if (was_empty) worker_.Wake();
}

std::chrono::nanoseconds Committer::ExpectedWait(std::string_view tenant) {
  MutexLock lock(mutex_);
  const std::size_t own = queue_.SizeOf(tenant);
  const std::size_t tenants = queue_.WaitingTenants() + (own == 0 ? 1 : 0);
  const std::size_t before = std::min((own + 1) * tenants, queue_.size());
  // As if all that are queued cost the same.
  const double part =
      static_cast<double>(before) / static_cast<double>(std::max<std::size_t>(1, queue_.size()));
  const std::int64_t all = cost_.load(std::memory_order_relaxed);
  const std::int64_t under_way = all - std::min(all, queued_cost_);
  return pace_.Expected(under_way +
                        static_cast<std::int64_t>(part * static_cast<double>(queued_cost_)));
}

void Committer::CommitQueued() {
  for (;;) {
    Batch batch;
    {
      MutexLock lock(mutex_);
      if (queue_.empty()) return;
      batch = TakeBatch();
    }
    CommitBatch(batch);
    for (Group& group : batch.groups) End(group);
    cost_.fetch_sub(batch.cost, std::memory_order_relaxed);
  }
}

Committer::Batch Committer::TakeBatch() {
  Batch batch;
  std::vector<Group>& groups = batch.groups;
  std::unordered_map<const CachedSession*, std::size_t> index;
  struct Left {
    TenantQueue<std::shared_ptr<Write>>::Turn turn;
    std::shared_ptr<Write> write;
    bool solitary = false;  // Must open a batch, so it opens the next one.
  };
  std::vector<Left> left;
  std::size_t writes = 0;
  std::size_t rows = 0;
  std::size_t bytes = 0;
  bool alone = false;
  while (!queue_.empty() && !batch.full && !alone) {
    auto [turn, write] = queue_.Take();
    const bool solitary = write->session->lost_in_a_row >= kLossesBeforeAlone;
    const bool closed = write->alone || !SessionDraft::CanShare(*write);
    const auto found = index.find(write->session.get());
    if (found != index.end() && (closed || groups[found->second].closed)) {
      // Once one write of a session waits, its later ones wait too.
      groups[found->second].closed = true;
      left.push_back({turn, std::move(write)});
      continue;
    }
    if (found == index.end() && solitary && !groups.empty()) {
      left.push_back({turn, std::move(write), /*solitary=*/true});
      continue;
    }
    rows += RowsOf(write->request.command);
    bytes += write->request.byte_size;
    if (writes > 0 && (rows > options_.max_rows || bytes > options_.max_bytes)) {
      left.push_back({turn, std::move(write)});
      batch.full = true;
      break;
    }
    if (found == index.end()) {
      index.emplace(write->session.get(), groups.size());
      Group& group = groups.emplace_back();
      group.session = write->session;
      group.closed = closed;
    }
    ++writes;
    const std::int64_t cost = CostOf(write->request);
    batch.cost += cost;
    queue_.EndTurn(turn, cost);
    groups[index.at(write->session.get())].writes.push_back(std::move(write));
    alone = solitary;
    batch.full = groups.size() >= kMaxGroups || writes >= kMaxWrites ||
                 pace_.Expected(batch.cost) >= kMaxBatchTime;
  }
  queued_cost_ -= batch.cost;
  while (!left.empty()) {
    queue_.PutBack(left.back().turn, std::move(left.back().write), left.back().solitary);
    left.pop_back();
  }
  return batch;
}

void Committer::CommitBatch(Batch& batch) {
  std::vector<Group>& groups = batch.groups;
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
      End(group);
    }
  }
  if (changes.empty()) return;
  std::size_t writes = 0;
  std::int64_t cost = kWriteCost;
  for (const Group* group : changed) {
    writes += group->stored.size();
    for (const auto& [write, reply] : group->stored) cost += CostOf(write->request);
  }
  options_.stats->batch_writes.Observe(static_cast<std::int64_t>(writes));
  bool sent = false;
  std::vector<CommitResult> results;
  try {
    ReachFailpoint("batch_drafted");
    sent = true;
    const auto begin = std::chrono::steady_clock::now();
    results = options_.store->Commit(changes);
    pace_.Observe(cost, std::chrono::steady_clock::now() - begin, batch.full);
    ReachFailpoint("commit_answered");
  } catch (...) {
    const CommitResult result = {sent ? CommitOutcome::kUnknown : CommitOutcome::kFailed,
                                 CaughtException()};
    for (Group* const group : changed) {
      Abandon(*group, result);
      End(*group);
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
    End(*changed[i]);
  }
}

WakeScope::AtEnd Committer::AtEndOfBatch() {
  MutexLock lock(mutex_);
  return queue_.empty() ? WakeScope::AtEnd::kVisit : WakeScope::AtEnd::kWakeUp;
}

void Committer::End(Group& group) {
  if (std::exchange(group.ended, true)) return;
  std::vector<std::function<void()>> waiting;
  {
    CachedSession& session = *group.session;
    MutexLock lock(session.mutex);
    session.committing = false;
    session.writes -= group.writes.size();
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
  // Before the replies too, so that what follows one may go to another committer.
  End(group);
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
  {
    MutexLock lock(write->session->mutex);
    ++write->session->writes;
  }
  Enqueue(std::move(write));
}

}  // namespace memoryd
