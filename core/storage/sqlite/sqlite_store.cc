#include "core/storage/sqlite/sqlite_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/error_cause.h"
#include "core/base/status_macros.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/item_store.h"
#include "core/storage/sqlite/database.h"
#include "core/storage/sqlite/database_file.h"
#include "core/storage/sqlite/database_pool.h"
#include "core/storage/sqlite/log_damage.h"
#include "core/storage/sqlite/open_files.h"
#include "core/storage/sqlite/schema.h"
#include "core/storage/sqlite/sqlite_commit.h"
#include "core/storage/sqlite/sqlite_item_store.h"
#include "core/storage/sqlite/sqlite_jobs.h"
#include "core/storage/sqlite/sqlite_purge.h"
#include "core/storage/sqlite/sqlite_read.h"
#include "core/storage/sqlite/sqlite_url.h"
#include "core/storage/sqlite/value.h"
#include "core/storage/store.h"
#include "core/storage/store_url.h"
#include "core/storage/stores.h"

namespace memoryd {
namespace {

using sqlite::Database;
using sqlite::DatabaseFile;
using sqlite::DatabasePool;
using sqlite::OpenFiles;

// For readers of the log to end. Commits wait meanwhile.
constexpr int kLogWaitMs = 25;
constexpr std::uintmax_t kLargestCheckedFile = std::uintmax_t{256} << 20;

class SqliteStore final : public Store, private sqlite::Connections {
 public:
  // `file` and `files` are null for a store in memory, which has no `readers` either.
  SqliteStore(std::unique_ptr<DatabaseFile> file, std::unique_ptr<OpenFiles> files,
              std::unique_ptr<Database> writer, std::vector<std::unique_ptr<Database>> readers,
              std::chrono::milliseconds timeout)
      : file_(std::move(file)),
        files_(std::move(files)),
        writer_(One(std::move(writer)), timeout),
        readers_(std::move(readers), timeout),
        read_pool_(file_ == nullptr ? writer_ : readers_),
        items_(*this) {}

  absl::Status Migrate() override {
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, TakeWriter());
    return sqlite::MigrateSchema(*db);
  }

  std::vector<CommitResult> Commit(std::span<const SessionChange> changes) override {
    const auto db = TakeWriter();
    if (!db.ok()) {
      return std::vector<CommitResult>(changes.size(), {CommitOutcome::kFailed, db.status()});
    }
    std::vector<CommitResult> results = sqlite::CommitChanges(**db, changes);
    if (const absl::Status status = StatusAfterCommit(**db); !status.ok()) {
      for (CommitResult& result : results) {
        if (result.outcome == CommitOutcome::kCommitted) {
          result = {CommitOutcome::kUnknown, status};
        }
      }
    }
    return results;
  }

  absl::StatusOr<std::optional<LoadedSession>> LoadSession(const SessionKey& key,
                                                           std::int64_t max_active_bytes) override {
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, read_pool_.Take());
    return sqlite::LoadSession(*db, key, max_active_bytes);
  }

  absl::StatusOr<std::vector<MessagePtr>> ReadRange(const SessionKey& key, std::uint64_t generation,
                                                    PositionRange range, std::int64_t max_messages,
                                                    std::int64_t max_bytes) override {
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, read_pool_.Take());
    return sqlite::ReadRange(*db, key, generation, range, max_messages, max_bytes);
  }

  absl::StatusOr<std::vector<MessagePtr>> ReadNewest(const SessionKey& key,
                                                     std::uint64_t generation, PositionRange range,
                                                     std::int64_t max_messages,
                                                     std::int64_t max_bytes) override {
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, read_pool_.Take());
    return sqlite::ReadNewest(*db, key, generation, range, max_messages, max_bytes);
  }

  absl::StatusOr<std::vector<MessagePtr>> ReadPositions(const SessionKey& key,
                                                        std::uint64_t generation,
                                                        std::span<const std::int64_t> positions,
                                                        std::int64_t max_bytes) override {
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, read_pool_.Take());
    return sqlite::ReadPositions(*db, key, generation, positions, max_bytes);
  }

  absl::StatusOr<std::vector<std::int64_t>> FindPositions(
      const SessionKey& key, std::uint64_t generation,
      std::span<const std::string> message_ids) override {
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, read_pool_.Take());
    return sqlite::FindPositions(*db, key, generation, message_ids);
  }

  absl::StatusOr<std::vector<RowSize>> ReadSizes(const SessionKey& key, std::uint64_t generation,
                                                 PositionRange range,
                                                 std::int64_t max_rows) override {
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, read_pool_.Take());
    return sqlite::ReadSizes(*db, key, generation, range, max_rows);
  }

  absl::StatusOr<std::vector<std::optional<SessionVersion>>> Revisions(
      std::span<const SessionKey> keys) override {
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, read_pool_.Take());
    return sqlite::Revisions(*db, keys);
  }

  absl::StatusOr<std::vector<std::optional<RequestRecord>>> FindRequests(
      const SessionKey& key, std::span<const std::string> request_ids) override {
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, read_pool_.Take());
    return sqlite::FindRequests(*db, key, request_ids);
  }

  absl::StatusOr<SessionPage> ListSessions(std::string_view tenant, std::string_view after,
                                           const SessionListLimits& limits) override {
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, read_pool_.Take());
    return sqlite::ListSessions(*db, tenant, after, limits);
  }

  absl::StatusOr<SessionPage> ListSubject(std::string_view tenant, std::string_view subject,
                                          std::string_view after, const SessionListLimits& limits,
                                          bool tombstones) override {
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, read_pool_.Take());
    return sqlite::ListSubject(*db, tenant, subject, after, limits, tombstones);
  }

  absl::StatusOr<SessionPage> ListLatest(std::string_view tenant, std::string_view subject,
                                         const LatestPlace& after,
                                         const SessionListLimits& limits) override {
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, read_pool_.Take());
    return sqlite::ListLatest(*db, tenant, subject, after, limits);
  }

  absl::StatusOr<std::int64_t> CountRequests(const SessionKey& key) override {
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, read_pool_.Take());
    return sqlite::CountRequests(*db, key);
  }

  absl::StatusOr<TenantUsage> ReadUsage(std::string_view tenant) override {
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, read_pool_.Take());
    return sqlite::ReadUsage(*db, tenant);
  }

  absl::StatusOr<std::vector<Job>> ClaimJobs(const ClaimRequest& request) override {
    {
      // Claimers ask often and mostly in vain, which no commit should have to wait for.
      MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, read_pool_.Take());
      MEMORYD_ASSIGN_OR_RETURN(const bool found, sqlite::HasClaimableJob(*db, request));
      if (!found) return std::vector<Job>();
    }
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, TakeWriter());
    return sqlite::ClaimJobs(*db, request);
  }

  absl::Status RenewJobs(std::uint64_t lease, std::span<const JobKey> jobs,
                         std::int64_t lease_us) override {
    if (jobs.empty()) return absl::OkStatus();
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, TakeWriter());
    return sqlite::RenewJobs(*db, lease, jobs, lease_us);
  }

  absl::Status ReleaseJob(std::uint64_t lease, const JobKey& job, std::int64_t delay_us,
                          std::string_view error, const Usage& usage, bool begun) override {
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, TakeWriter());
    return sqlite::ReleaseJob(*db, lease, job, delay_us, error, usage, begun);
  }

  absl::StatusOr<std::vector<Job>> ListJobs(const SessionKey& key,
                                            const JobFilter& filter) override {
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, read_pool_.Take());
    return sqlite::ListJobs(*db, key, filter);
  }

  absl::StatusOr<std::optional<Job>> FindJob(const JobKey& key) override {
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, read_pool_.Take());
    return sqlite::FindJob(*db, key);
  }

  absl::StatusOr<JobCounts> CountJobs() override {
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, read_pool_.Take());
    return sqlite::CountJobs(*db);
  }

  absl::StatusOr<std::int64_t> Purge(const PurgeLimits& limits) override {
    std::int64_t deleted = 0;
    for (PurgeLimits left = limits; left.max_rows > 0;) {
      // Taken anew for each step, so that commits get their turn between two.
      MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, TakeWriter());
      MEMORYD_ASSIGN_OR_RETURN(const std::int64_t rows, sqlite::PurgeStep(*db, left));
      if (rows == 0) break;
      deleted += rows;
      left.max_rows -= rows;
    }
    return deleted;
  }

  absl::StatusOr<std::vector<DueSession>> ListDueSessions(std::int64_t now_us,
                                                          std::int64_t max_sessions) override {
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, read_pool_.Take());
    return sqlite::ListDueSessions(*db, now_us, max_sessions);
  }

  absl::Status TouchSessions(std::span<const SessionTouch> touches) override {
    if (touches.empty()) return absl::OkStatus();
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, TakeWriter());
    return sqlite::TouchSessions(*db, touches);
  }

  absl::StatusOr<std::vector<std::string>> ListGarbage(std::string_view tenant,
                                                       std::string_view after,
                                                       std::int64_t max_sessions) override {
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, read_pool_.Take());
    return sqlite::ListGarbage(*db, tenant, after, max_sessions);
  }

  absl::StatusOr<SessionPurge> PurgeSession(const SessionKey& key, std::int64_t max_rows) override {
    SessionPurge purged;
    while (purged.rows < max_rows) {
      MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, TakeWriter());
      MEMORYD_ASSIGN_OR_RETURN(const std::int64_t rows,
                               sqlite::PurgeSessionStep(*db, key, max_rows - purged.rows));
      purged.rows += rows;
      purged.done = rows == 0;
      if (purged.done) break;
    }
    return purged;
  }

  absl::StatusOr<PurgedTraces> RemoveTraces() override {
    if (file_ == nullptr) return PurgedTraces();
    // What is deleted is overwritten with zeros, but at first in the log alone, which has the pages
    // of before as well.
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, TakeWriter());
    const int code = db->TruncateLog(kLogWaitMs);
    if ((code & 0xFF) != SQLITE_BUSY) MEMORYD_RETURN_IF_ERROR(sqlite::ToStatus(code));
    return PurgedTraces{
        .removed = code == SQLITE_OK,
        .left_elsewhere =
            "SQLite: rarely, parts of pages that it has split and nothing uses, until "
            "VACUUM; backups and copies of the file"};
  }

  ItemStore& Items() override { return items_; }

  absl::Status Ping() override {
    const auto db = writer_.Take();
    // What keeps it busy is a commit of this process, on a disk that stalls.
    if (!db.ok()) return absl::DeadlineExceededError(db.status().message());
    if (files_ != nullptr) {
      const absl::Status status = files_->Check();
      if (!status.ok()) SaveLog(**db);
      MEMORYD_RETURN_IF_ERROR(status);
    }
    const int code = (*db)->Run("BEGIN IMMEDIATE");
    (*db)->Rollback();
    return sqlite::ToStatus(code);
  }

  absl::StatusOr<StoreInfo> Describe() override {
    // Of the connection that writes: how it syncs is its own setting.
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, writer_.Take());
    StoreInfo info{kSqliteStore.scheme, 0, Durability::kNone};
    MEMORYD_ASSIGN_OR_RETURN(info.schema_version, sqlite::SchemaVersion(*db));
    sqlite::Query synchronous = db->Prepare("PRAGMA synchronous");
    MEMORYD_ASSIGN_OR_RETURN(const bool found, synchronous.Next());
    constexpr std::int64_t kFull = 2;
    if (file_ != nullptr && found && synchronous.Int(0) >= kFull) {
      info.durability = Durability::kLocal;
    }
    return info;
  }

 private:
  // The connection that writes; UNAVAILABLE when the files are no longer those that it has open.
  absl::StatusOr<DatabasePool::Lease> TakeWriter() override {
    MEMORYD_ASSIGN_OR_RETURN(DatabasePool::Lease db, writer_.Take());
    if (files_ != nullptr) {
      const absl::Status status = files_->CheckBeforeWriting();
      if (!status.ok()) SaveLog(*db);
      MEMORYD_RETURN_IF_ERROR(Refusal(status));
    }
    return db;
  }

  // Of the files as they were seen after the last commit and before anything was copied from the
  // log.
  absl::Status StatusAfterCommit(Database& db) override {
    if (files_ == nullptr || files_->status().ok()) return absl::OkStatus();
    SaveLog(db);
    return Refusal(files_->status());
  }

  absl::StatusOr<DatabasePool::Lease> TakeReader() override { return read_pool_.Take(); }

  // For callers: FAILED_PRECONDITION would be about their request.
  static absl::Status Refusal(const absl::Status& status) {
    if (status.ok()) return status;
    const ErrorCause cause = CauseOf(status);
    return WithCause(absl::UnavailableError(status.message()), cause.code, cause.text);
  }

  // Of a log that has lost nothing but its name, what was acknowledged can be saved. One that lacks
  // bytes must not be copied: it would overwrite good pages with zeros.
  void SaveLog(Database& db) {
    if (std::exchange(log_is_settled_, true)) return;
    if (!files_->log_is_whole() || db.CopyLog() == SQLITE_OK) db.KeepLogAtClose();
  }

  static std::vector<std::unique_ptr<Database>> One(std::unique_ptr<Database> db) {
    std::vector<std::unique_ptr<Database>> one;
    one.push_back(std::move(db));
    return one;
  }

  // Destroyed in reverse: readers first, so that the writer is the last to close and empties the
  // log; the lock last of all.
  const std::unique_ptr<DatabaseFile> file_;
  // Both are for whoever has the connection that writes.
  const std::unique_ptr<OpenFiles> files_;
  bool log_is_settled_ = false;
  DatabasePool writer_;
  DatabasePool readers_;
  DatabasePool& read_pool_;
  sqlite::SqliteItemStore items_;
};

absl::Status QuickCheck(Database& db) {
  sqlite::Query query = db.Prepare("PRAGMA quick_check(1)");
  MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
  if (found && query.Bytes(0) == "ok") return absl::OkStatus();
  return absl::DataLossError("the store's file is damaged: restore it from a backup");
}

void Warn(const StoreOptions& options, const std::string& line) {
  if (options.warn != nullptr && !line.empty()) options.warn(line);
}

// Whether the log has lost commits that the operator accepts to lose. DATA_LOSS when he does not.
absl::StatusOr<bool> HasAcceptedLoss(const DatabaseFile& file, const StoreOptions& options) {
  MEMORYD_ASSIGN_OR_RETURN(const std::optional<sqlite::LogDamage> damage,
                           sqlite::FindLogDamage(file.log_path()));
  if (!damage.has_value()) return false;
  const std::string what = fmt::format("{} is damaged at byte {}: {} commits behind it",
                                       file.log_path(), damage->offset, damage->commits);
  if (options.accept_lost_commits != damage->Name()) {
    return absl::DataLossError(fmt::format(
        "{} would be lost; copy both files and restore them from a backup, or start once with "
        "--accept-lost-commits={} to go on without these",
        what, damage->Name()));
  }
  Warn(options, what + " are lost, which accept_lost_commits accepts");
  return true;
}

absl::StatusOr<std::unique_ptr<Store>> OpenFile(const std::string& path,
                                                const StoreOptions& options) {
  MEMORYD_ASSIGN_OR_RETURN(std::unique_ptr<DatabaseFile> file, DatabaseFile::Hold(path));
  Warn(options, file->OpenToOthers());
  const bool left_open = file->WasLeftOpen();
  MEMORYD_ASSIGN_OR_RETURN(const bool accepted_loss, HasAcceptedLoss(*file, options));
  MEMORYD_ASSIGN_OR_RETURN(std::unique_ptr<Database> writer,
                           Database::Open(file->path(), Database::Use::kWrite, options.timeout_ms));
  // Else frames that are lost would be found again behind those of later commits.
  if (accepted_loss) MEMORYD_RETURN_IF_ERROR(sqlite::ToStatus(writer->TruncateLog()));
  std::error_code error;
  if (left_open && std::filesystem::file_size(file->path(), error) <= kLargestCheckedFile) {
    MEMORYD_RETURN_IF_ERROR(QuickCheck(*writer));
    MEMORYD_ASSIGN_OR_RETURN(const sqlite::ValueFaults faults, sqlite::CheckValues(*writer));
    // Nobody can read strays, and a read of what is missing is DATA_LOSS: no reason to refuse all
    // other sessions.
    if (faults.strays > 0) {
      Warn(options,
           fmt::format("{} of the large values in {} belong to no row", faults.strays, path));
    }
    if (faults.missing > 0) {
      Warn(options, fmt::format("{} large values of rows in {} are missing; their sessions can't "
                                "be read: restore the file from a backup",
                                faults.missing, path));
    }
  }
  std::vector<std::unique_ptr<Database>> readers;
  for (int i = 0; i < std::max(1, options.readers); ++i) {
    MEMORYD_ASSIGN_OR_RETURN(
        readers.emplace_back(),
        Database::Open(file->path(), Database::Use::kRead, options.timeout_ms));
  }
  const volatile void* const index = writer->LogIndex();
  if (index == nullptr) return absl::InternalError("SQLite has no index of its log");
  MEMORYD_ASSIGN_OR_RETURN(std::unique_ptr<OpenFiles> files, OpenFiles::Watch(*file, index));
  writer->OnCommit([files = files.get()] { return files->Check().ok(); });
  return std::make_unique<SqliteStore>(std::move(file), std::move(files), std::move(writer),
                                       std::move(readers),
                                       std::chrono::milliseconds(options.timeout_ms));
}

// A new database in place of the one that was meant would look as if all had been lost.
absl::Status CheckMeansTheSame(std::string_view written, const StoreUrl& url) {
  std::error_code error;
  if (url.former_place.empty() || !std::filesystem::is_regular_file(url.former_place, error)) {
    return absl::OkStatus();
  }
  const bool in_memory = url.place == kMemoryPath;
  if (!in_memory && std::filesystem::exists(url.place, error)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{} means {}, which is not there; earlier versions read it as {}, which is: "
                  "write sqlite:///{} "
                  "to go on with that file, or sqlite:{} to begin a new store",
                  written,
                  in_memory ? "a store in memory"
                            : fmt::format("{} in the working folder {}", url.place,
                                          std::filesystem::current_path(error).string()),
                  url.former_place, url.former_place, url.place));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(const StoreOptions& options) {
  const absl::StatusOr<StoreUrl> url = ParseSqliteUrl(options.url);
  if (!url.ok()) return InvalidField("store", std::string(url.status().message()));
  MEMORYD_RETURN_IF_ERROR(CheckMeansTheSame(options.url, *url));
  const std::string& path = url->place;
  if (path == kMemoryPath) {
    MEMORYD_ASSIGN_OR_RETURN(std::unique_ptr<Database> db,
                             Database::Open(path, Database::Use::kWrite, options.timeout_ms));
    return std::make_unique<SqliteStore>(nullptr, nullptr, std::move(db),
                                         std::vector<std::unique_ptr<Database>>(),
                                         std::chrono::milliseconds(options.timeout_ms));
  }
  absl::StatusOr<std::unique_ptr<Store>> store = OpenFile(path, options);
  if (store.ok() || absl::IsFailedPrecondition(store.status())) return store;
  const ErrorCause cause = CauseOf(store.status());
  return WithCause(absl::Status(store.status().code(),
                                fmt::format("{}: {}", path, std::string(store.status().message()))),
                   cause.code, cause.text);
}

}  // namespace memoryd
