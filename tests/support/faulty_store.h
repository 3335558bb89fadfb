// A store that fails, loses its replies and stalls when it is told to.
#ifndef MEMORYD_TESTS_SUPPORT_FAULTY_STORE_H_
#define MEMORYD_TESTS_SUPPORT_FAULTY_STORE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/storage/store.h"

namespace memoryd {

// Passes every call on to a real store, which must outlive it, but for what a test has asked for.
// Nothing here depends on time: a stalled call waits until it is released.
class FaultyStore : public Store {
 public:
  struct Batch {
    std::size_t changes = 0;
    std::size_t messages = 0;
  };

  explicit FaultyStore(Store* store) : store_(store) {}

  // What the next change is answered; asked for twice, the next two. `stored`: it is committed
  // nevertheless, as when only the reply was lost.
  void AnswerNext(CommitOutcome outcome, absl::Status status = absl::OkStatus(),
                  bool stored = false) MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    answers_.push_back({{outcome, std::move(status)}, stored});
  }

  // What reads are answered from now on, OK for the truth.
  void FailReads(absl::Status status) MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    read_status_ = std::move(status);
  }
  void FailPing(absl::Status status) MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    ping_status_ = std::move(status);
  }

  // Commits wait before anything is stored.
  void StallCommits() MEMORYD_EXCLUDES(mutex_) { Set(commits_stall_, true); }
  void ReleaseCommits() MEMORYD_EXCLUDES(mutex_) { Set(commits_stall_, false); }
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
    return results;
  }

  absl::StatusOr<std::optional<LoadedSession>> LoadSession(const SessionKey& key) override
      MEMORYD_EXCLUDES(mutex_) {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    auto loaded = store_->LoadSession(key);
    MutexLock lock(mutex_);
    ++loads_;
    WaitWhile(loads_stall_);
    return loaded;
  }

  absl::StatusOr<std::vector<MessagePtr>> ReadRange(const SessionKey& key, std::uint64_t generation,
                                                    PositionRange range, std::int64_t max_messages,
                                                    std::int64_t max_bytes) override {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->ReadRange(key, generation, range, max_messages, max_bytes);
  }

  absl::StatusOr<std::vector<std::optional<SessionVersion>>> Revisions(
      std::span<const SessionKey> keys) override {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->Revisions(keys);
  }

  absl::StatusOr<std::vector<std::optional<RequestRecord>>> FindRequests(
      const SessionKey& key, std::span<const std::string> request_ids) override {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->FindRequests(key, request_ids);
  }

  absl::StatusOr<std::vector<ListedSession>> ListSessions(std::string_view tenant,
                                                          std::string_view after,
                                                          std::int64_t max_sessions) override {
    if (absl::Status status = ReadStatus(); !status.ok()) return status;
    return store_->ListSessions(tenant, after, max_sessions);
  }

  absl::StatusOr<std::int64_t> Purge(const PurgeLimits& limits) override {
    return store_->Purge(limits);
  }

  absl::Status Ping() override MEMORYD_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (!ping_status_.ok()) return ping_status_;
    }
    return store_->Ping();
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

  absl::Status ReadStatus() MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return read_status_;
  }

  Store* const store_;
  Mutex mutex_;
  CondVar changed_;
  bool commits_stall_ = false;  // Guarded as the rest; Set() takes a reference.
  bool loads_stall_ = false;
  int stalled_ MEMORYD_GUARDED_BY(mutex_) = 0;
  int loads_ MEMORYD_GUARDED_BY(mutex_) = 0;
  std::vector<Batch> batches_ MEMORYD_GUARDED_BY(mutex_);
  std::deque<std::pair<CommitResult, bool>> answers_ MEMORYD_GUARDED_BY(mutex_);
  absl::Status read_status_ MEMORYD_GUARDED_BY(mutex_);
  absl::Status ping_status_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_TESTS_SUPPORT_FAULTY_STORE_H_
