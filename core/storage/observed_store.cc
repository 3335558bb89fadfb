#include "core/storage/observed_store.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/error_cause.h"
#include "core/base/histogram.h"
#include "core/base/mutex.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/checksum.h"
#include "core/storage/observed_items.h"
#include "core/storage/store.h"

namespace memoryd {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t Nanoseconds(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

constexpr std::size_t Index(StoreOperation operation) {
  return static_cast<std::size_t>(operation);
}

std::size_t ClassOf(std::string_view code) {
  constexpr std::size_t kSqlState = 5;
  const std::string_view wanted = code.size() == kSqlState ? code.substr(0, 2) : code;
  const auto found = std::find(kStoreErrorClasses.begin(), kStoreErrorClasses.end() - 1, wanted);
  return static_cast<std::size_t>(found - kStoreErrorClasses.begin());
}

}  // namespace

ObservedStore::ObservedStore(Store* store, OnError on_error)
    : store_(*store),
      on_error_(std::move(on_error)),
      items_(std::make_unique<ObservedItems>(
          &store->Items(), [this](StoreOperation operation, Clock::duration took,
                                  const absl::Status& status) { Note(operation, took, status); })) {
}

template <typename Call>
auto ObservedStore::Timed(StoreOperation operation, const Call& call) {
  const auto begin = Clock::now();
  auto result = call();
  Note(operation, Clock::now() - begin, StatusOf(result));
  return result;
}

void ObservedStore::Note(StoreOperation operation, Clock::duration took,
                         const absl::Status& status) {
  stats_.seconds[Index(operation)].Observe(took);
  if (status.ok()) return;
  const std::string reason = ErrorReason(status);
  // A reply refused for its size is no trouble of the store's.
  if (reason != "REPLY_TOO_LARGE") CountError(operation, status);
  if (reason == kChecksumMismatch) Increment(stats_.checksum_failures);
}

void ObservedStore::CountError(StoreOperation operation, const absl::Status& error) {
  Increment(stats_.errors[Index(operation)]);
  Increment(stats_.error_classes[ClassOf(CauseOf(error).code)]);
  if (on_error_) on_error_(operation, error);
}

bool ObservedStore::AnsweredWithin(Clock::duration age) const {
  const std::int64_t last = last_answer_.load(std::memory_order_relaxed);
  return last != 0 && Nanoseconds(Clock::now() - age) <= last;
}

StoreInfo ObservedStore::info() const {
  const MutexLock lock(mutex_);
  return info_;
}

absl::Status ObservedStore::Migrate() {
  return Timed(StoreOperation::kMigrate, [&] { return store_.Migrate(); });
}

std::vector<CommitResult> ObservedStore::Commit(std::span<const SessionChange> changes) {
  constexpr std::size_t kIndex = Index(StoreOperation::kCommit);
  const auto begin = Clock::now();
  std::vector<CommitResult> results = store_.Commit(changes);
  stats_.seconds[kIndex].Observe(Clock::now() - begin);
  stats_.batch_sessions.Observe(static_cast<std::int64_t>(changes.size()));
  const CommitResult* failed = nullptr;
  for (const CommitResult& result : results) {
    Increment(stats_.outcomes[static_cast<std::size_t>(result.outcome)]);
    if (result.in_doubt) Increment(stats_.in_doubt[static_cast<std::size_t>(result.outcome)]);
    if (result.outcome == CommitOutcome::kFailed || result.outcome == CommitOutcome::kUnknown) {
      failed = &result;
    }
  }
  if (failed != nullptr) CountError(StoreOperation::kCommit, failed->status);
  return results;
}

absl::StatusOr<std::optional<LoadedSession>> ObservedStore::LoadSession(
    const SessionKey& key, std::int64_t max_active_bytes) {
  return Timed(StoreOperation::kLoadSession,
               [&] { return store_.LoadSession(key, max_active_bytes); });
}

absl::StatusOr<std::vector<MessagePtr>> ObservedStore::ReadRange(const SessionKey& key,
                                                                 std::uint64_t generation,
                                                                 PositionRange range,
                                                                 std::int64_t max_messages,
                                                                 std::int64_t max_bytes) {
  return Timed(StoreOperation::kReadRange,
               [&] { return store_.ReadRange(key, generation, range, max_messages, max_bytes); });
}

absl::StatusOr<std::vector<MessagePtr>> ObservedStore::ReadNewest(const SessionKey& key,
                                                                  std::uint64_t generation,
                                                                  PositionRange range,
                                                                  std::int64_t max_messages,
                                                                  std::int64_t max_bytes) {
  return Timed(StoreOperation::kReadNewest,
               [&] { return store_.ReadNewest(key, generation, range, max_messages, max_bytes); });
}

absl::StatusOr<std::vector<MessagePtr>> ObservedStore::ReadPositions(
    const SessionKey& key, std::uint64_t generation, std::span<const std::int64_t> positions,
    std::int64_t max_bytes) {
  return Timed(StoreOperation::kReadPositions,
               [&] { return store_.ReadPositions(key, generation, positions, max_bytes); });
}

absl::StatusOr<std::vector<std::int64_t>> ObservedStore::FindPositions(
    const SessionKey& key, std::uint64_t generation, std::span<const std::string> message_ids) {
  return Timed(StoreOperation::kFindPositions,
               [&] { return store_.FindPositions(key, generation, message_ids); });
}

absl::StatusOr<std::vector<RowSize>> ObservedStore::ReadSizes(const SessionKey& key,
                                                              std::uint64_t generation,
                                                              PositionRange range,
                                                              std::int64_t max_rows) {
  return Timed(StoreOperation::kReadSizes,
               [&] { return store_.ReadSizes(key, generation, range, max_rows); });
}

absl::StatusOr<std::vector<std::optional<SessionVersion>>> ObservedStore::Revisions(
    std::span<const SessionKey> keys) {
  return Timed(StoreOperation::kRevisions, [&] { return store_.Revisions(keys); });
}

absl::StatusOr<std::vector<std::optional<RequestRecord>>> ObservedStore::FindRequests(
    const SessionKey& key, std::span<const std::string> request_ids) {
  return Timed(StoreOperation::kFindRequests,
               [&] { return store_.FindRequests(key, request_ids); });
}

absl::StatusOr<SessionPage> ObservedStore::ListSessions(std::string_view tenant,
                                                        std::string_view after,
                                                        const SessionListLimits& limits) {
  return Timed(StoreOperation::kListSessions,
               [&] { return store_.ListSessions(tenant, after, limits); });
}

absl::StatusOr<SessionPage> ObservedStore::ListSubject(std::string_view tenant,
                                                       std::string_view subject,
                                                       std::string_view after,
                                                       const SessionListLimits& limits,
                                                       bool tombstones) {
  return Timed(StoreOperation::kListSubject,
               [&] { return store_.ListSubject(tenant, subject, after, limits, tombstones); });
}

absl::StatusOr<SessionPage> ObservedStore::ListLatest(std::string_view tenant,
                                                      std::string_view subject,
                                                      const LatestPlace& after,
                                                      const SessionListLimits& limits) {
  return Timed(StoreOperation::kListLatest,
               [&] { return store_.ListLatest(tenant, subject, after, limits); });
}

absl::StatusOr<std::int64_t> ObservedStore::CountRequests(const SessionKey& key) {
  return Timed(StoreOperation::kCountRequests, [&] { return store_.CountRequests(key); });
}

absl::StatusOr<TenantUsage> ObservedStore::ReadUsage(std::string_view tenant) {
  return Timed(StoreOperation::kReadUsage, [&] { return store_.ReadUsage(tenant); });
}

absl::StatusOr<std::vector<Job>> ObservedStore::ClaimJobs(const ClaimRequest& request) {
  return Timed(StoreOperation::kClaimJobs, [&] { return store_.ClaimJobs(request); });
}

absl::Status ObservedStore::RenewJobs(std::uint64_t lease, std::span<const JobKey> jobs,
                                      std::int64_t lease_us) {
  return Timed(StoreOperation::kRenewJobs, [&] { return store_.RenewJobs(lease, jobs, lease_us); });
}

absl::Status ObservedStore::ReleaseJob(std::uint64_t lease, const JobKey& job,
                                       std::int64_t delay_us, std::string_view error,
                                       const Usage& usage, bool begun) {
  return Timed(StoreOperation::kReleaseJob,
               [&] { return store_.ReleaseJob(lease, job, delay_us, error, usage, begun); });
}

absl::StatusOr<std::vector<Job>> ObservedStore::ListJobs(const SessionKey& key,
                                                         const JobFilter& filter) {
  return Timed(StoreOperation::kListJobs, [&] { return store_.ListJobs(key, filter); });
}

absl::StatusOr<std::optional<Job>> ObservedStore::FindJob(const JobKey& key) {
  return Timed(StoreOperation::kFindJob, [&] { return store_.FindJob(key); });
}

absl::StatusOr<JobCounts> ObservedStore::CountJobs() {
  return Timed(StoreOperation::kCountJobs, [&] { return store_.CountJobs(); });
}

absl::StatusOr<std::int64_t> ObservedStore::Purge(const PurgeLimits& limits) {
  auto purged = Timed(StoreOperation::kPurge, [&] { return store_.Purge(limits); });
  if (purged.ok()) Increment(stats_.purged_rows, static_cast<std::uint64_t>(*purged));
  return purged;
}

absl::StatusOr<std::vector<DueSession>> ObservedStore::ListDueSessions(std::int64_t now_us,
                                                                       std::int64_t max_sessions) {
  return Timed(StoreOperation::kListDueSessions,
               [&] { return store_.ListDueSessions(now_us, max_sessions); });
}

absl::Status ObservedStore::TouchSessions(std::span<const SessionTouch> touches) {
  return Timed(StoreOperation::kTouchSessions, [&] { return store_.TouchSessions(touches); });
}

absl::StatusOr<std::vector<std::string>> ObservedStore::ListGarbage(std::string_view tenant,
                                                                    std::string_view after,
                                                                    std::int64_t max_sessions) {
  return Timed(StoreOperation::kListGarbage,
               [&] { return store_.ListGarbage(tenant, after, max_sessions); });
}

absl::StatusOr<SessionPurge> ObservedStore::PurgeSession(const SessionKey& key,
                                                         std::int64_t max_rows) {
  auto purged =
      Timed(StoreOperation::kPurgeSession, [&] { return store_.PurgeSession(key, max_rows); });
  if (purged.ok()) Increment(stats_.purged_rows, static_cast<std::uint64_t>(purged->rows));
  return purged;
}

absl::StatusOr<PurgedTraces> ObservedStore::RemoveTraces() {
  return Timed(StoreOperation::kRemoveTraces, [&] { return store_.RemoveTraces(); });
}

absl::Status ObservedStore::Ping() {
  const std::int64_t begin = Nanoseconds(Clock::now());
  absl::Status status = Timed(StoreOperation::kPing, [&] { return store_.Ping(); });
  if (status.ok()) last_answer_.store(begin, std::memory_order_relaxed);
  return status;
}

absl::StatusOr<StoreInfo> ObservedStore::Describe() {
  auto info = Timed(StoreOperation::kDescribe, [&] { return store_.Describe(); });
  if (info.ok()) {
    const MutexLock lock(mutex_);
    info_ = *info;
  }
  return info;
}

}  // namespace memoryd
