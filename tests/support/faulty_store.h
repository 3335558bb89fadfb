// A store that fails, loses its replies and stalls when it is told to.
#ifndef MEMORYD_TESTS_SUPPORT_FAULTY_STORE_H_
#define MEMORYD_TESTS_SUPPORT_FAULTY_STORE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/storage/store.h"
#include "tests/support/faulty_items.h"

namespace memoryd {

// Passes every call on to a real store, which must outlive it, but for what a test has asked for.
// Nothing here depends on time: a stalled call waits until it is released.
class FaultyStore : public Store {
 public:
  struct Batch {
    std::size_t changes = 0;
    std::size_t messages = 0;
  };

  explicit FaultyStore(Store* store)
      : store_(store), items_(&store->Items(), [this] { return ReadStatus(); }) {}

  // What the next change is answered; asked for twice, the next two. `stored`: it is committed
  // nevertheless, as when only the reply was lost.
  void AnswerNext(CommitOutcome outcome, absl::Status status = absl::OkStatus(),
                  bool stored = false) MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    answers_.push_back({{outcome, std::move(status)}, stored});
  }

  // What reads, and calls for jobs, are answered from now on, OK for the truth.
  void FailReads(absl::Status status) MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    read_status_ = std::move(status);
  }
  // So often somebody reads what traces of purged rows are in.
  void ReadTraces(int times) MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    traces_read_ = times;
  }
  void FailPing(absl::Status status) MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    ping_status_ = std::move(status);
  }

  // Runs before the next read of rows by range or by position, on its thread.
  void BeforeNextRows(std::function<void()> meanwhile) MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    before_rows_ = std::move(meanwhile);
  }

  // Commits wait before anything is stored.
  void StallCommits() MEMORYD_EXCLUDES(mutex_) { Set(commits_stall_, true); }
  void ReleaseCommits() MEMORYD_EXCLUDES(mutex_) { Set(commits_stall_, false); }
  // Commits wait after all is stored, with their replies.
  void StallReplies() MEMORYD_EXCLUDES(mutex_) { Set(replies_stall_, true); }
  void ReleaseReplies() MEMORYD_EXCLUDES(mutex_) { Set(replies_stall_, false); }
  // Runs before the next Revisions(), on its thread.
  void BeforeNextRevisions(std::function<void()> meanwhile) MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    before_revisions_ = std::move(meanwhile);
  }
  // LoadSession() waits after it has read, with what it has read.
  void StallLoads() MEMORYD_EXCLUDES(mutex_) { Set(loads_stall_, true); }
  void ReleaseLoads() MEMORYD_EXCLUDES(mutex_) { Set(loads_stall_, false); }
  // Returns when that many calls wait; aborts when they never come.
  void AwaitStalled(int calls) MEMORYD_EXCLUDES(mutex_) {
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    MutexLock lock(mutex_);
    while (stalled_ < calls) {
      if (std::chrono::steady_clock::now() >= patience) std::abort();
      changed_.WaitUntil(mutex_, patience);
    }
  }

  // The commits so far, in the order in which they began.
  std::vector<Batch> batches() MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return batches_;
  }
  int loads() MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return loads_;
  }

  // Rows that ReadRange() and ReadNewest() have returned so far.
  std::size_t range_rows() MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return range_rows_;
  }

  absl::Status Migrate() override { return store_->Migrate(); }

  std::vector<CommitResult> Commit(std::span<const SessionChange> changes) override
      MEMORYD_EXCLUDES(mutex_) {
    std::vector<std::optional<CommitResult>> answers(changes.size());
    std::vector<SessionChange> passed_on;
    {
      MutexLock lock(mutex_);
      Batch batch{changes.size(), 0};
      for (const SessionChange& change : changes) batch.messages += change.messages.size();
      batches_.push_back(batch);
      WaitWhile(commits_stall_);
      for (std::size_t i = 0; i < changes.size(); ++i) {
        bool stored = true;
        if (!answers_.empty()) {
          answers[i] = answers_.front().first;
          stored = answers_.front().second;
          answers_.pop_front();
        }
        if (stored) passed_on.push_back(changes[i]);
      }
    }
    const std::vector<CommitResult> real =
        passed_on.empty() ? std::vector<CommitResult>() : store_->Commit(passed_on);
    std::vector<CommitResult> results;
    std::size_t next = 0;
    for (std::size_t i = 0; i < changes.size(); ++i) {
      const bool was_passed_on = next < passed_on.size() && passed_on[next].key == changes[i].key;
      const CommitResult truth = was_passed_on ? real[next++] : CommitResult();
      results.push_back(answers[i].value_or(truth));
    }
    MutexLock lock(mutex_);
    if (replies_stall_) WaitWhile(replies_stall_);
    return results;
  }

  absl::StatusOr<std::optional<LoadedSession>> LoadSession(const SessionKey& key,
                                                           std::int64_t max_active_bytes) override
      MEMORYD_EXCLUDES(mutex_) {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    auto loaded = store_->LoadSession(key, max_active_bytes);
    MutexLock lock(mutex_);
    ++loads_;
    WaitWhile(loads_stall_);
    return loaded;
  }

  absl::StatusOr<std::vector<MessagePtr>> ReadRange(const SessionKey& key, std::uint64_t generation,
                                                    PositionRange range, std::int64_t max_messages,
                                                    std::int64_t max_bytes) override
      MEMORYD_EXCLUDES(mutex_) {
    RunBeforeRows();
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    auto rows = store_->ReadRange(key, generation, range, max_messages, max_bytes);
    MutexLock lock(mutex_);
    if (rows.ok()) range_rows_ += rows->size();
    return rows;
  }

  absl::StatusOr<std::vector<MessagePtr>> ReadNewest(const SessionKey& key,
                                                     std::uint64_t generation, PositionRange range,
                                                     std::int64_t max_messages,
                                                     std::int64_t max_bytes) override
      MEMORYD_EXCLUDES(mutex_) {
    RunBeforeRows();
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    auto rows = store_->ReadNewest(key, generation, range, max_messages, max_bytes);
    MutexLock lock(mutex_);
    if (rows.ok()) range_rows_ += rows->size();
    return rows;
  }

  absl::StatusOr<std::vector<MessagePtr>> ReadPositions(const SessionKey& key,
                                                        std::uint64_t generation,
                                                        std::span<const std::int64_t> positions,
                                                        std::int64_t max_bytes) override {
    RunBeforeRows();
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->ReadPositions(key, generation, positions, max_bytes);
  }

  absl::StatusOr<std::vector<std::int64_t>> FindPositions(
      const SessionKey& key, std::uint64_t generation,
      std::span<const std::string> message_ids) override {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->FindPositions(key, generation, message_ids);
  }

  absl::StatusOr<std::vector<RowSize>> ReadSizes(const SessionKey& key, std::uint64_t generation,
                                                 PositionRange range,
                                                 std::int64_t max_rows) override {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->ReadSizes(key, generation, range, max_rows);
  }

  absl::StatusOr<std::vector<std::optional<SessionVersion>>> Revisions(
      std::span<const SessionKey> keys) override MEMORYD_EXCLUDES(mutex_) {
    std::function<void()> meanwhile;
    {
      MutexLock lock(mutex_);
      meanwhile = std::exchange(before_revisions_, nullptr);
    }
    if (meanwhile) meanwhile();
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->Revisions(keys);
  }

  absl::StatusOr<std::vector<std::optional<RequestRecord>>> FindRequests(
      const SessionKey& key, std::span<const std::string> request_ids) override {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->FindRequests(key, request_ids);
  }

  absl::StatusOr<SessionPage> ListSessions(std::string_view tenant, std::string_view after,
                                           const SessionListLimits& limits) override {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->ListSessions(tenant, after, limits);
  }

  absl::StatusOr<SessionPage> ListSubject(std::string_view tenant, std::string_view subject,
                                          std::string_view after, const SessionListLimits& limits,
                                          bool tombstones) override {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->ListSubject(tenant, subject, after, limits, tombstones);
  }
  absl::StatusOr<SessionPage> ListLatest(std::string_view tenant, std::string_view subject,
                                         const LatestPlace& after,
                                         const SessionListLimits& limits) override {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->ListLatest(tenant, subject, after, limits);
  }

  absl::StatusOr<std::int64_t> CountRequests(const SessionKey& key) override {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->CountRequests(key);
  }

  absl::StatusOr<TenantUsage> ReadUsage(std::string_view tenant) override {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->ReadUsage(tenant);
  }

  absl::StatusOr<std::vector<Job>> ClaimJobs(const ClaimRequest& request) override {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->ClaimJobs(request);
  }

  absl::Status RenewJobs(std::uint64_t lease, std::span<const JobKey> jobs,
                         std::int64_t lease_us) override {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->RenewJobs(lease, jobs, lease_us);
  }

  absl::Status ReleaseJob(std::uint64_t lease, const JobKey& job, std::int64_t delay_us,
                          std::string_view error, const Usage& usage, bool begun) override {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->ReleaseJob(lease, job, delay_us, error, usage, begun);
  }

  absl::StatusOr<std::vector<Job>> ListJobs(const SessionKey& key,
                                            const JobFilter& filter) override {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->ListJobs(key, filter);
  }

  absl::StatusOr<std::optional<Job>> FindJob(const JobKey& key) override {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->FindJob(key);
  }

  absl::StatusOr<JobCounts> CountJobs() override {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->CountJobs();
  }

  absl::StatusOr<std::int64_t> Purge(const PurgeLimits& limits) override {
    return store_->Purge(limits);
  }

  absl::StatusOr<std::vector<DueSession>> ListDueSessions(std::int64_t now_us,
                                                          std::int64_t max_sessions) override {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->ListDueSessions(now_us, max_sessions);
  }

  absl::Status TouchSessions(std::span<const SessionTouch> touches) override {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->TouchSessions(touches);
  }

  absl::StatusOr<std::vector<std::string>> ListGarbage(std::string_view tenant,
                                                       std::string_view after,
                                                       std::int64_t max_sessions) override {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->ListGarbage(tenant, after, max_sessions);
  }

  absl::StatusOr<SessionPurge> PurgeSession(const SessionKey& key, std::int64_t max_rows) override {
    return store_->PurgeSession(key, max_rows);
  }

  absl::StatusOr<PurgedTraces> RemoveTraces() override MEMORYD_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (traces_read_ > 0) {
        --traces_read_;
        return PurgedTraces{.removed = false, .left_elsewhere = {}};
      }
    }
    return store_->RemoveTraces();
  }

  // Calls that FailReads() has fail do so here too; see FaultyItems for writes.
  FaultyItems& Items() override { return items_; }

  absl::Status Ping() override MEMORYD_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (!ping_status_.ok()) return ping_status_;
    }
    return store_->Ping();
  }

  absl::StatusOr<StoreInfo> Describe() override {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->Describe();
  }

 private:
  void Set(bool& flag, bool value) {
    MutexLock lock(mutex_);
    flag = value;
    changed_.NotifyAll();
  }

  void WaitWhile(const bool& flag) MEMORYD_REQUIRES(mutex_) {
    ++stalled_;
    changed_.NotifyAll();
    while (flag) changed_.Wait(mutex_);
    --stalled_;
  }

  void RunBeforeRows() MEMORYD_EXCLUDES(mutex_) {
    std::function<void()> meanwhile;
    {
      MutexLock lock(mutex_);
      meanwhile = std::exchange(before_rows_, nullptr);
    }
    if (meanwhile) meanwhile();
  }

  absl::Status ReadStatus() MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return read_status_;
  }

  Store* const store_;
  Mutex mutex_;
  CondVar changed_;
  bool commits_stall_ = false;  // Guarded as the rest; Set() takes a reference.
  bool loads_stall_ = false;
  bool replies_stall_ = false;
  int stalled_ MEMORYD_GUARDED_BY(mutex_) = 0;
  int loads_ MEMORYD_GUARDED_BY(mutex_) = 0;
  std::size_t range_rows_ MEMORYD_GUARDED_BY(mutex_) = 0;
  std::function<void()> before_rows_ MEMORYD_GUARDED_BY(mutex_);
  std::function<void()> before_revisions_ MEMORYD_GUARDED_BY(mutex_);
  std::vector<Batch> batches_ MEMORYD_GUARDED_BY(mutex_);
  std::deque<std::pair<CommitResult, bool>> answers_ MEMORYD_GUARDED_BY(mutex_);
  absl::Status read_status_ MEMORYD_GUARDED_BY(mutex_);
  absl::Status ping_status_ MEMORYD_GUARDED_BY(mutex_);
  int traces_read_ MEMORYD_GUARDED_BY(mutex_) = 0;
  FaultyItems items_;
};

}  // namespace memoryd

#endif  // MEMORYD_TESTS_SUPPORT_FAULTY_STORE_H_
