// Commits what waits, across sessions and tenants, in one statement.
#ifndef MEMORYD_CORE_WRITES_COMMITTER_H_
#define MEMORYD_CORE_WRITES_COMMITTER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/random_source.h"
#include "core/base/wall_clock.h"
#include "core/calls/engine_stats.h"
#include "core/calls/serial_worker.h"
#include "core/calls/tenant_queue.h"
#include "core/calls/wake_scope.h"
#include "core/sessions/session_cache.h"
#include "core/sessions/session_usage.h"
#include "core/storage/store.h"
#include "core/writes/commit_pace.h"
#include "core/writes/committed_jobs.h"
#include "core/writes/draft/session_draft.h"
#include "core/writes/quotas.h"
#include "core/writes/token_rules.h"
#include "core/writes/write.h"

namespace memoryd {

// Where a committer sends writes that it can't decide on yet. Each is enqueued again or finished.
// Any thread; nothing waits.
class UndecidedWrites {
 public:
  virtual ~UndecidedWrites() = default;

  // Reads the session anew and sets write->fresh.
  virtual void Reload(std::shared_ptr<Write> write) = 0;
  // Reads what the write's tenant has stored.
  virtual void ReadUsage(std::shared_ptr<Write> write) = 0;
  // Counts the write's tokens under its `count_with`.
  virtual void Count(std::shared_ptr<Write> write) = 0;
  // Looks the write's request_id up and finishes the write: with its stored reply, else with the
  // decision `otherwise`; without one it enqueues it again.
  virtual void LookUp(std::shared_ptr<Write> write,
                      std::optional<SessionDraft::Decision> otherwise) = 0;
};

// Owns sessions as long as it has writes of theirs, and commits one batch at a time: on the thread
// of a lone call, else on one of its own (SerialWorker). While a batch is on its way to the store
// the next one gathers, so the batches grow with the load. A session has at most one commit in
// flight. Tenants share the batches by the bytes and messages that they write, so nobody waits
// behind all that another sent.
class Committer {
 public:
  struct Options {
    Store* store = nullptr;
    SessionCache* cache = nullptr;
    const TokenRules* token_rules = nullptr;
    EngineStats* stats = nullptr;
    // Whether other servers write to the store too, so that a cached session may be old.
    bool shared = true;
    const WallClock* clock = nullptr;
    RandomSource* random = nullptr;
    std::int64_t max_active_bytes = kAllActive;
    // A batch has no more messages and bytes than these, but for a write that is larger and a batch
    // by itself. They take a store some 5 ms, which is what a small write waits behind large ones.
    std::size_t max_rows = 1000;
    std::size_t max_bytes = std::size_t{1} << 20;
    // Null where no session has blocks.
    CommittedJobs* jobs = nullptr;
    UndecidedWrites* undecided = nullptr;
    // What every commit takes along; null: nothing.
    SessionUsage* usage = nullptr;
    // Null: no tenant has one.
    Quotas* quotas = nullptr;
  };

  explicit Committer(Options options);
  // Commits what is queued.
  ~Committer() = default;
  Committer(const Committer&) = delete;
  Committer& operator=(const Committer&) = delete;

  // The number of queued writes is bounded by admission. The caller has added the write to
  // CachedSession::writes; the committer takes it off, also where this throws. Any thread.
  void Enqueue(std::shared_ptr<Write> write) MEMORYD_EXCLUDES(mutex_);

  // An estimate of how long the writes that are here already will take. Any thread.
  std::chrono::nanoseconds ExpectedWait() const {
    return pace_.Expected(cost_.load(std::memory_order_relaxed));
  }
  // An estimate for those that come before the next write of this tenant. Any thread.
  std::chrono::nanoseconds ExpectedWait(std::string_view tenant) MEMORYD_EXCLUDES(mutex_);

 private:
  // The writes to one session in a batch.
  struct Group {
    std::shared_ptr<CachedSession> session;
    std::vector<std::shared_ptr<Write>> writes;
    bool closed = false;
    std::optional<SessionDraft> draft;
    // Those to be answered when the change is committed, with their replies.
    std::vector<std::pair<std::shared_ptr<Write>, WriteReply>> stored;
    // What the quotas hold for them, and what the tenant stores more once they are committed.
    TenantUsage reserved;
    TenantUsage change;
    // What models took for the session, which the change stores.
    Usage usage;
    // The writes are no longer here.
    bool ended = false;
  };
  struct Batch {
    std::vector<Group> groups;
    std::int64_t cost = 0;
    bool full = false;  // There was no room for more.
  };

  // Writes of a group that are not stored with it, by where they go from there.
  struct Undecided {
    struct Decided {
      std::shared_ptr<Write> write;
      SessionDraft::Decision decision;
    };
    std::vector<Decided> to_answer;
    std::vector<Decided> to_look_up;
    std::vector<std::shared_ptr<Write>> to_reload;
    std::vector<std::shared_ptr<Write>> to_requeue;
    std::vector<std::shared_ptr<Write>> to_await_usage;
    std::vector<std::shared_ptr<Write>> to_count;
  };

  // Until nothing is queued.
  void CommitQueued() MEMORYD_EXCLUDES(mutex_);
  Batch TakeBatch() MEMORYD_REQUIRES(mutex_);
  void CommitBatch(Batch& batch);
  void DraftGroup(Group& group);
  // Decides on one write of the group, under its session's mutex.
  void Decide(Group& group, const std::shared_ptr<Write>& write, Undecided& undecided);
  void HandOn(Undecided undecided);
  // This thread sends the replies of a batch itself, unless the next batch waits.
  WakeScope::AtEnd AtEndOfBatch() MEMORYD_EXCLUDES(mutex_);
  // Adds the write to the group's draft, unless its tenant has no room for it.
  SessionDraft::Decision Add(Group& group, Write& write);
  void SettleUsage(Group& group, CommitOutcome outcome);
  void Conclude(Group& group, const CommitResult& result);
  // Of a group that is stored.
  void Acknowledge(Group& group);
  // Of one write of a group that is not, or may not be. `lone`: the group has no other.
  void EndUnstored(const std::shared_ptr<Write>& write, bool lone, const CommitResult& result);
  // Ends the writes of a group in whose way an exception came, at the stage that `result` tells.
  void Abandon(Group& group, const CommitResult& result);
  // The session in memory is what the store has, or is known not to be: calls those who wait for
  // it. Unless that was before.
  static void End(Group& group);
  // Ends a write that can't be stored, unless it was before and has a record.
  void Refuse(const std::shared_ptr<Write>& write, absl::Status status);
  void Requeue(std::shared_ptr<Write> write);

  const Options options_;
  CommitPace pace_;
  std::atomic<std::int64_t> cost_{0};  // Of what is queued, or in the batch that is under way.
  Mutex mutex_;
  // Its costs are bytes.
  TenantQueue<std::shared_ptr<Write>> queue_ MEMORYD_GUARDED_BY(mutex_);
  std::int64_t queued_cost_ MEMORYD_GUARDED_BY(mutex_) = 0;
  SerialWorker worker_{[this] { CommitQueued(); }};
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_COMMITTER_H_
