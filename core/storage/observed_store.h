// A store whose calls are counted and timed.
#ifndef MEMORYD_CORE_STORAGE_OBSERVED_STORE_H_
#define MEMORYD_CORE_STORAGE_OBSERVED_STORE_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/histogram.h"
#include "core/base/mutex.h"
#include "core/storage/store.h"

namespace memoryd {

enum class StoreOperation : std::uint8_t {
  kMigrate,
  kCommit,
  kLoadSession,
  kReadRange,
  kReadNewest,
  kReadPositions,
  kFindPositions,
  kReadSizes,
  kRevisions,
  kFindRequests,
  kListSessions,
  kListSubject,
  kListLatest,
  kCountRequests,
  kReadUsage,
  kClaimJobs,
  kRenewJobs,
  kReleaseJob,
  kListJobs,
  kFindJob,
  kCountJobs,
  kPurge,
  kListDueSessions,
  kTouchSessions,
  kListGarbage,
  kPurgeSession,
  kRemoveTraces,
  kWriteItems,
  kReadItems,
  kListItems,
  kFindNamespaces,
  kListNamespaces,
  kWriteNamespace,
  kDeleteNamespace,
  kStageNamespace,
  kStageItems,
  kPublishNamespace,
  kDropNamespace,
  kFindItemRequests,
  kTouchItems,
  kReadItemUsage,
  kPurgeItems,
  kPing,
  kDescribe,
};
// In the order of StoreOperation.
inline constexpr std::array<std::string_view, 44> kStoreOperations = {"migrate",
                                                                      "commit",
                                                                      "load_session",
                                                                      "read_range",
                                                                      "read_newest",
                                                                      "read_positions",
                                                                      "find_positions",
                                                                      "read_sizes",
                                                                      "revisions",
                                                                      "find_requests",
                                                                      "list_sessions",
                                                                      "list_subject",
                                                                      "list_latest",
                                                                      "count_requests",
                                                                      "read_usage",
                                                                      "claim_jobs",
                                                                      "renew_jobs",
                                                                      "release_job",
                                                                      "list_jobs",
                                                                      "find_job",
                                                                      "count_jobs",
                                                                      "purge",
                                                                      "list_due_sessions",
                                                                      "touch_sessions",
                                                                      "list_garbage",
                                                                      "purge_session",
                                                                      "remove_traces",
                                                                      "write_items",
                                                                      "read_items",
                                                                      "list_items",
                                                                      "find_namespaces",
                                                                      "list_namespaces",
                                                                      "write_namespace",
                                                                      "delete_namespace",
                                                                      "stage_namespace",
                                                                      "stage_items",
                                                                      "publish_namespace",
                                                                      "drop_namespace",
                                                                      "find_item_requests",
                                                                      "touch_items",
                                                                      "read_item_usage",
                                                                      "purge_items",
                                                                      "ping",
                                                                      "describe"};
// What CauseOf() names an error by: SQLSTATEs by their first two characters, then results of
// SQLite, and last whatever else there is.
inline constexpr auto kStoreErrorClasses = std::to_array<std::string_view>({"08",
                                                                            "22",
                                                                            "23",
                                                                            "25",
                                                                            "28",
                                                                            "3D",
                                                                            "40",
                                                                            "42",
                                                                            "53",
                                                                            "54",
                                                                            "55",
                                                                            "57",
                                                                            "58",
                                                                            "XX",
                                                                            "SQLITE_BUSY",
                                                                            "SQLITE_LOCKED",
                                                                            "SQLITE_FULL",
                                                                            "SQLITE_NOMEM",
                                                                            "SQLITE_IOERR",
                                                                            "SQLITE_READONLY",
                                                                            "SQLITE_CANTOPEN",
                                                                            "SQLITE_CORRUPT",
                                                                            "SQLITE_NOTADB",
                                                                            "SQLITE_ERROR",
                                                                            "other"});
// In the order of CommitOutcome.
inline constexpr std::array<std::string_view, 6> kCommitOutcomes = {
    "committed", "revision_lost", "message_id_taken", "request_id_taken", "failed", "unknown"};

struct StoreStats {
  // By StoreOperation. A commit of which a change failed, or is unknown, counts as one error.
  std::array<DurationHistogram, kStoreOperations.size()> seconds;
  std::array<Counter, kStoreOperations.size()> errors{};
  // The same errors, by kStoreErrorClasses.
  std::array<Counter, kStoreErrorClasses.size()> error_classes{};
  // Sessions that a commit changes.
  SizeHistogram batch_sessions;
  // Changes, by CommitOutcome.
  std::array<Counter, kCommitOutcomes.size()> outcomes{};
  // Those of them whose first answer was lost.
  std::array<Counter, kCommitOutcomes.size()> in_doubt{};
  Counter purged_rows{0};
  // Reads that met a row which is not what was written.
  Counter checksum_failures{0};
};

// Passes every call on to a store, which must outlive it. Any thread may call any method.
class ObservedStore final : public Store {
 public:
  // Called with each error that is counted, on the thread that met it.
  using OnError = std::function<void(StoreOperation operation, const absl::Status& error)>;

  explicit ObservedStore(Store* store, OnError on_error = nullptr);

  const StoreStats& stats() const { return stats_; }
  // Whether a Ping() begun no longer ago than `age` was answered well.
  bool AnsweredWithin(std::chrono::steady_clock::duration age) const;
  // What Describe() found the last time it found something.
  StoreInfo info() const MEMORYD_EXCLUDES(mutex_);

  absl::Status Migrate() override;
  std::vector<CommitResult> Commit(std::span<const SessionChange> changes) override;
  absl::StatusOr<std::optional<LoadedSession>> LoadSession(const SessionKey& key,
                                                           std::int64_t max_active_bytes) override;
  absl::StatusOr<std::vector<MessagePtr>> ReadRange(const SessionKey& key, std::uint64_t generation,
                                                    PositionRange range, std::int64_t max_messages,
                                                    std::int64_t max_bytes) override;
  absl::StatusOr<std::vector<MessagePtr>> ReadNewest(const SessionKey& key,
                                                     std::uint64_t generation, PositionRange range,
                                                     std::int64_t max_messages,
                                                     std::int64_t max_bytes) override;
  absl::StatusOr<std::vector<MessagePtr>> ReadPositions(const SessionKey& key,
                                                        std::uint64_t generation,
                                                        std::span<const std::int64_t> positions,
                                                        std::int64_t max_bytes) override;
  absl::StatusOr<std::vector<std::int64_t>> FindPositions(
      const SessionKey& key, std::uint64_t generation,
      std::span<const std::string> message_ids) override;
  absl::StatusOr<std::vector<RowSize>> ReadSizes(const SessionKey& key, std::uint64_t generation,
                                                 PositionRange range,
                                                 std::int64_t max_rows) override;
  absl::StatusOr<std::vector<std::optional<SessionVersion>>> Revisions(
      std::span<const SessionKey> keys) override;
  absl::StatusOr<std::vector<std::optional<RequestRecord>>> FindRequests(
      const SessionKey& key, std::span<const std::string> request_ids) override;
  absl::StatusOr<SessionPage> ListSessions(std::string_view tenant, std::string_view after,
                                           const SessionListLimits& limits) override;
  absl::StatusOr<SessionPage> ListSubject(std::string_view tenant, std::string_view subject,
                                          std::string_view after, const SessionListLimits& limits,
                                          bool tombstones) override;
  absl::StatusOr<SessionPage> ListLatest(std::string_view tenant, std::string_view subject,
                                         const LatestPlace& after,
                                         const SessionListLimits& limits) override;
  absl::StatusOr<std::int64_t> CountRequests(const SessionKey& key) override;
  absl::StatusOr<TenantUsage> ReadUsage(std::string_view tenant) override;
  absl::StatusOr<std::vector<Job>> ClaimJobs(const ClaimRequest& request) override;
  absl::Status RenewJobs(std::uint64_t lease, std::span<const JobKey> jobs,
                         std::int64_t lease_us) override;
  absl::Status ReleaseJob(std::uint64_t lease, const JobKey& job, std::int64_t delay_us,
                          std::string_view error, const Usage& usage, bool begun) override;
  absl::StatusOr<std::vector<Job>> ListJobs(const SessionKey& key,
                                            const JobFilter& filter) override;
  absl::StatusOr<std::optional<Job>> FindJob(const JobKey& key) override;
  absl::StatusOr<JobCounts> CountJobs() override;
  absl::StatusOr<std::int64_t> Purge(const PurgeLimits& limits) override;
  absl::StatusOr<std::vector<DueSession>> ListDueSessions(std::int64_t now_us,
                                                          std::int64_t max_sessions) override;
  absl::Status TouchSessions(std::span<const SessionTouch> touches) override;
  absl::StatusOr<std::vector<std::string>> ListGarbage(std::string_view tenant,
                                                       std::string_view after,
                                                       std::int64_t max_sessions) override;
  absl::StatusOr<SessionPurge> PurgeSession(const SessionKey& key, std::int64_t max_rows) override;
  absl::StatusOr<PurgedTraces> RemoveTraces() override;
  // Observed too.
  ItemStore& Items() override { return *items_; }
  absl::Status Ping() override;
  absl::StatusOr<StoreInfo> Describe() override MEMORYD_EXCLUDES(mutex_);

 private:
  // What `call` returns, an absl::Status or StatusOr.
  template <typename Call>
  auto Timed(StoreOperation operation, const Call& call);
  // A call has ended.
  void Note(StoreOperation operation, std::chrono::steady_clock::duration took,
            const absl::Status& status);
  void CountError(StoreOperation operation, const absl::Status& error);

  Store& store_;
  const OnError on_error_;
  StoreStats stats_;
  const std::unique_ptr<ItemStore> items_;
  // Nanoseconds of the steady clock; 0 for never.
  std::atomic<std::int64_t> last_answer_{0};
  mutable Mutex mutex_;
  StoreInfo info_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_OBSERVED_STORE_H_
