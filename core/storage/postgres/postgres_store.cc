#include "core/storage/postgres/postgres_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
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
#include "core/base/status_macros.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/item_store.h"
#include "core/storage/postgres/batch_connection.h"
#include "core/storage/postgres/batch_writer.h"
#include "core/storage/postgres/call_timer.h"
#include "core/storage/postgres/connection_settings.h"
#include "core/storage/postgres/durability.h"
#include "core/storage/postgres/exclusive_lock.h"
#include "core/storage/postgres/migrations.h"
#include "core/storage/postgres/postgres_item_store.h"
#include "core/storage/postgres/postgres_jobs.h"
#include "core/storage/postgres/query_connection.h"
#include "core/storage/postgres/read_queries.h"
#include "core/storage/postgres/retried_queries.h"
#include "core/storage/postgres/row_codec.h"
#include "core/storage/postgres/sqlstate.h"
#include "core/storage/postgres/sweep.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"

namespace memoryd {
namespace {

using Clock = std::chrono::steady_clock;
using Parameters = std::vector<std::string>;

// The session's id, then its columns, then how many there are.
absl::StatusOr<SessionPage> DecodeListed(const QueryResult& result) {
  SessionPage page;
  for (int row = 0; row < result.size(); ++row) {
    ListedSession& listed = page.sessions.emplace_back();
    listed.session = std::string(result.Text(row, 0));
    MEMORYD_ASSIGN_OR_RETURN(listed.row, DecodeSession(result, row, 1));
    page.more = result.Int(row, kSessionColumnCount + 1) > result.size();
  }
  return page;
}

// The first parameters of what lists sessions.
Parameters ListParameters(std::string_view tenant, std::string_view after,
                          const SessionListLimits& limits) {
  return {std::string(tenant),
          std::string(after),
          std::to_string(std::max<std::int64_t>(0, limits.max_sessions)),
          std::to_string(limits.max_bytes),
          limits.with_configs ? "true" : "false",
          std::string(limits.prefix),
          BehindPrefix(limits.prefix)};
}

class PostgresStore : public Store, private PoolDropper {
 public:
  PostgresStore(const StoreOptions& options, ConnectionSettings settings)
      : timeout_(options.timeout_ms),
        writer_count_(options.writers),
        settings_(std::move(settings)),
        writers_(options.writers, [this] { return BatchConnection::Connect(settings_); }),
        readers_(options.readers, [this] { return QueryConnection::Connect(settings_, timer_); }),
        lookups_(1, [this] { return QueryConnection::Connect(settings_, timer_); }),
        items_(writers_, readers_, *this, timeout_) {
    if (options.coherence == Coherence::kExclusive) {
      exclusive_ = std::make_unique<ExclusiveLock>(settings_, timer_);
    }
  }

  // Opens what the first call of each kind needs: a busy server takes long to start a backend, and
  // a call should not fail for that.
  absl::Status Connect();

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
  absl::StatusOr<std::vector<Job>> ClaimJobs(const ClaimRequest& request) override {
    return jobs_.ClaimJobs(request);
  }
  absl::Status RenewJobs(std::uint64_t lease, std::span<const JobKey> jobs,
                         std::int64_t lease_us) override {
    return jobs_.RenewJobs(lease, jobs, lease_us);
  }
  absl::Status ReleaseJob(std::uint64_t lease, const JobKey& job, std::int64_t delay_us,
                          std::string_view error, const Usage& usage, bool begun) override {
    return jobs_.ReleaseJob(lease, job, delay_us, error, usage, begun);
  }
  absl::StatusOr<std::vector<Job>> ListJobs(const SessionKey& key,
                                            const JobFilter& filter) override {
    return jobs_.ListJobs(key, filter);
  }
  absl::StatusOr<std::optional<Job>> FindJob(const JobKey& key) override {
    return jobs_.FindJob(key);
  }
  absl::StatusOr<JobCounts> CountJobs() override { return jobs_.CountJobs(); }
  absl::StatusOr<std::int64_t> Purge(const PurgeLimits& limits) override;
  absl::StatusOr<std::vector<DueSession>> ListDueSessions(std::int64_t now_us,
                                                          std::int64_t max_sessions) override;
  absl::Status TouchSessions(std::span<const SessionTouch> touches) override;
  absl::StatusOr<std::vector<std::string>> ListGarbage(std::string_view tenant,
                                                       std::string_view after,
                                                       std::int64_t max_sessions) override;
  absl::StatusOr<SessionPurge> PurgeSession(const SessionKey& key, std::int64_t max_rows) override;
  absl::StatusOr<PurgedTraces> RemoveTraces() override;
  ItemStore& Items() override { return items_; }
  absl::Status Ping() override;
  absl::StatusOr<StoreInfo> Describe() override;

 private:
  Deadline CallDeadline() const { return Clock::now() + timeout_; }
  void DropConnections() override;
  // What kReadRange or kReadNewest finds.
  absl::StatusOr<std::vector<MessagePtr>> ReadRows(const Query& query, const SessionKey& key,
                                                   std::uint64_t generation, PositionRange range,
                                                   std::int64_t max_messages,
                                                   std::int64_t max_bytes);
  // OK once what the parameters of kConfirmRequests name is replicated wherever it must be.
  absl::Status ConfirmRequests(const std::vector<std::string>& parameters);

  const std::chrono::milliseconds timeout_;
  const int writer_count_;
  const ConnectionSettings settings_;
  CallTimer timer_;
  BatchPool writers_;
  QueryPool readers_;
  QueryPool lookups_;  // One connection, so that a look-up waits for no other read.
  RetriedQueries reads_{readers_, *this, timeout_};
  RetriedQueries quick_{lookups_, *this, timeout_};
  PostgresJobs jobs_{reads_};
  PostgresItemStore items_;
  std::unique_ptr<ExclusiveLock> exclusive_;  // Null with shared coherence.
};

void PostgresStore::DropConnections() {
  writers_.DropAll();
  readers_.DropAll();
  lookups_.DropAll();
}

absl::Status PostgresStore::Migrate() {
  MEMORYD_ASSIGN_OR_RETURN(const std::unique_ptr<QueryConnection> connection,
                           QueryConnection::Connect(settings_, timer_));
  return MigrateSchema(*connection, timeout_);
}

std::vector<CommitResult> PostgresStore::Commit(std::span<const SessionChange> changes) {
  std::vector<CommitResult> results(changes.size());
  std::vector<PendingChange> pending;
  pending.reserve(changes.size());
  for (std::size_t i = 0; i < changes.size(); ++i) pending.push_back({&changes[i], &results[i]});
  const Deadline start = Clock::now();
  const CommitContext context{writers_, readers_, *this, start + timeout_ * 3 / 5,
                              start + timeout_};
  WriteChanges(context, std::move(pending));
  return results;
}

absl::StatusOr<std::optional<LoadedSession>> PostgresStore::LoadSession(
    const SessionKey& key, std::int64_t max_active_bytes) {
  MEMORYD_ASSIGN_OR_RETURN(
      const QueryResult result,
      reads_.Run(kLoadSession, {key.tenant, key.session, std::to_string(max_active_bytes)}));
  if (result.size() == 0) return std::nullopt;
  LoadedSession loaded;
  MEMORYD_ASSIGN_OR_RETURN(loaded.row, DecodeSession(result, 0, 0));
  const std::int64_t active_bytes =
      result.Int(0, kSessionColumnCount + kMessageColumnCount + kBlockColumnCount);
  if (active_bytes > max_active_bytes) loaded.too_large = active_bytes;
  for (int row = 1; row < result.size(); ++row) {
    constexpr int kBlock = kSessionColumnCount + kMessageColumnCount;
    if (!result.IsNull(row, kBlock)) {
      loaded.blocks.push_back(DecodeBlock(result, row, kBlock));
      continue;
    }
    MEMORYD_ASSIGN_OR_RETURN(MessagePtr message, DecodeMessage(result, row, kSessionColumnCount));
    loaded.active.push_back(std::move(message));
  }
  return loaded;
}

absl::StatusOr<std::vector<MessagePtr>> PostgresStore::ReadRange(const SessionKey& key,
                                                                 std::uint64_t generation,
                                                                 PositionRange range,
                                                                 std::int64_t max_messages,
                                                                 std::int64_t max_bytes) {
  return ReadRows(kReadRange, key, generation, range, max_messages, max_bytes);
}

absl::StatusOr<std::vector<MessagePtr>> PostgresStore::ReadNewest(const SessionKey& key,
                                                                  std::uint64_t generation,
                                                                  PositionRange range,
                                                                  std::int64_t max_messages,
                                                                  std::int64_t max_bytes) {
  return ReadRows(kReadNewest, key, generation, range, max_messages, max_bytes);
}

absl::StatusOr<std::vector<MessagePtr>> PostgresStore::ReadRows(
    const Query& query, const SessionKey& key, std::uint64_t generation, PositionRange range,
    std::int64_t max_messages, std::int64_t max_bytes) {
  MEMORYD_ASSIGN_OR_RETURN(
      const QueryResult result,
      reads_.Run(query, {key.tenant, key.session, BitsParameter(generation),
                         std::to_string(range.begin), std::to_string(range.end),
                         std::to_string(max_messages), std::to_string(max_bytes)}));
  return DecodeMessages(result);
}

absl::StatusOr<std::vector<MessagePtr>> PostgresStore::ReadPositions(
    const SessionKey& key, std::uint64_t generation, std::span<const std::int64_t> positions,
    std::int64_t max_bytes) {
  if (positions.empty()) return std::vector<MessagePtr>();
  MEMORYD_ASSIGN_OR_RETURN(
      const QueryResult result,
      reads_.Run(kReadPositions,
                 {key.tenant, key.session, BitsParameter(generation),
                  fmt::format("{{{}}}", fmt::join(positions, ",")), std::to_string(max_bytes)}));
  if (result.size() > 0 && result.Int(0, kMessageColumnCount) > max_bytes) return ReplyTooLarge();
  return DecodeMessages(result);
}

absl::StatusOr<std::vector<std::int64_t>> PostgresStore::FindPositions(
    const SessionKey& key, std::uint64_t generation, std::span<const std::string> message_ids) {
  std::vector<std::int64_t> positions;
  if (message_ids.empty()) return positions;
  MEMORYD_ASSIGN_OR_RETURN(
      const QueryResult result,
      reads_.Run(kFindPositions, {key.tenant, key.session, BitsParameter(generation),
                                  ArrayParameter(message_ids)}));
  positions.reserve(static_cast<std::size_t>(result.size()));
  for (int row = 0; row < result.size(); ++row) positions.push_back(result.Int(row, 0));
  return positions;
}

absl::StatusOr<std::vector<RowSize>> PostgresStore::ReadSizes(const SessionKey& key,
                                                              std::uint64_t generation,
                                                              PositionRange range,
                                                              std::int64_t max_rows) {
  MEMORYD_ASSIGN_OR_RETURN(
      const QueryResult result,
      reads_.Run(kReadSizes,
                 {key.tenant, key.session, BitsParameter(generation), std::to_string(range.begin),
                  std::to_string(range.end), std::to_string(max_rows)}));
  std::vector<RowSize> sizes;
  sizes.reserve(static_cast<std::size_t>(result.size()));
  for (int row = 0; row < result.size(); ++row) {
    sizes.push_back({result.Int(row, 0), result.Int(row, 1), result.Int(row, 2)});
  }
  return sizes;
}

absl::StatusOr<std::vector<std::optional<SessionVersion>>> PostgresStore::Revisions(
    std::span<const SessionKey> keys) {
  std::vector<std::optional<SessionVersion>> versions(keys.size());
  if (keys.empty()) return versions;
  std::vector<std::string> tenants, sessions;
  for (const SessionKey& key : keys) {
    tenants.push_back(key.tenant);
    sessions.push_back(key.session);
  }
  MEMORYD_ASSIGN_OR_RETURN(
      const QueryResult result,
      quick_.Run(kRevisions, {ArrayParameter(tenants), ArrayParameter(sessions)}));
  for (int row = 0; row < result.size(); ++row) {
    versions[static_cast<std::size_t>(result.Int(row, 0) - 1)] = {
        std::bit_cast<std::uint64_t>(result.Int(row, 1)), result.Int(row, 2)};
  }
  return versions;
}

absl::Status PostgresStore::ConfirmRequests(const std::vector<std::string>& parameters) {
  const Deadline deadline = CallDeadline();
  for (int tries = 1;; ++tries) {
    MEMORYD_ASSIGN_OR_RETURN(const BatchPool::Lease connection,
                             writers_.Acquire(deadline, /*patient=*/true));
    const BatchReply reply = connection->Execute(kConfirmRequests, parameters, deadline);
    if (reply.kind == BatchReply::Kind::kDone) return absl::OkStatus();
    if (SpoilsAllConnections(reply.sqlstate)) DropConnections();
    // A connection that had been lost meanwhile says nothing of the next one.
    if (reply.kind != BatchReply::Kind::kNotSent || tries > 1) {
      return WithServersCause(
          absl::UnavailableError("whether what is recorded is replicated is not known"),
          reply.sqlstate, reply.said);
    }
  }
}

absl::StatusOr<std::vector<std::optional<RequestRecord>>> PostgresStore::FindRequests(
    const SessionKey& key, std::span<const std::string> request_ids) {
  std::vector<std::optional<RequestRecord>> records(request_ids.size());
  if (request_ids.empty()) return records;
  const std::vector<std::string> parameters = {key.tenant, key.session,
                                               ArrayParameter(request_ids)};
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult result, reads_.Run(kFindRequests, parameters));
  if (result.size() == 0) return records;
  MEMORYD_RETURN_IF_ERROR(ConfirmRequests(parameters));
  std::map<std::string, RequestRecord, std::less<>> found;
  for (int row = 0; row < result.size(); ++row) {
    const std::string request_id(result.Text(row, 0));
    found[request_id] = {request_id, result.Bytes(row, 1), result.Bytes(row, 2),
                         result.Int(row, 3)};
  }
  for (std::size_t i = 0; i < request_ids.size(); ++i) {
    if (const auto record = found.find(request_ids[i]); record != found.end()) {
      records[i] = record->second;
    }
  }
  return records;
}

absl::StatusOr<SessionPage> PostgresStore::ListSessions(std::string_view tenant,
                                                        std::string_view after,
                                                        const SessionListLimits& limits) {
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult result,
                           reads_.Run(kListSessions, ListParameters(tenant, after, limits)));
  return DecodeListed(result);
}

absl::StatusOr<SessionPage> PostgresStore::ListSubject(std::string_view tenant,
                                                       std::string_view subject,
                                                       std::string_view after,
                                                       const SessionListLimits& limits,
                                                       bool tombstones) {
  Parameters parameters = ListParameters(tenant, after, limits);
  parameters.emplace_back(subject);
  parameters.emplace_back(tombstones ? "true" : "false");
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult result, reads_.Run(kListSubject, parameters));
  return DecodeListed(result);
}

absl::StatusOr<SessionPage> PostgresStore::ListLatest(std::string_view tenant,
                                                      std::string_view subject,
                                                      const LatestPlace& after,
                                                      const SessionListLimits& limits) {
  Parameters parameters = ListParameters(tenant, after.session, limits);
  parameters.emplace_back(subject);
  parameters.emplace_back(std::to_string(after.update_us));
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult result, reads_.Run(kListLatest, parameters));
  return DecodeListed(result);
}

absl::StatusOr<std::int64_t> PostgresStore::CountRequests(const SessionKey& key) {
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult result,
                           reads_.Run(kCountRequests, {key.tenant, key.session}));
  return result.Int(0, 0);
}

absl::StatusOr<TenantUsage> PostgresStore::ReadUsage(std::string_view tenant) {
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult result, reads_.Run(kReadUsage, {std::string(tenant)}));
  return TenantUsage{result.Int(0, 0), result.Int(0, 1), result.Int(0, 2)};
}

absl::StatusOr<std::int64_t> PostgresStore::Purge(const PurgeLimits& limits) {
  MEMORYD_ASSIGN_OR_RETURN(const QueryPool::Lease connection, readers_.Acquire(CallDeadline()));
  return Sweep(*connection.operator->(), limits, timeout_);
}

absl::StatusOr<std::vector<DueSession>> PostgresStore::ListDueSessions(std::int64_t now_us,
                                                                       std::int64_t max_sessions) {
  std::vector<DueSession> due;
  for (const Query* query : {&kListExpiring, &kListDropping}) {
    MEMORYD_ASSIGN_OR_RETURN(
        const QueryResult result,
        reads_.Run(*query, {std::to_string(now_us), std::to_string(max_sessions),
                            std::to_string(kSmallConfigBytes)}));
    for (int row = 0; row < result.size(); ++row) {
      DueSession& session = due.emplace_back();
      session.key = {std::string(result.Text(row, 0)), std::string(result.Text(row, 1))};
      MEMORYD_ASSIGN_OR_RETURN(session.row, DecodeSession(result, row, 2));
    }
  }
  return due;
}

absl::Status PostgresStore::TouchSessions(std::span<const SessionTouch> touches) {
  if (touches.empty()) return absl::OkStatus();
  std::vector<std::string> tenants, sessions, generations, times;
  for (const SessionTouch& touch : touches) {
    tenants.push_back(touch.key.tenant);
    sessions.push_back(touch.key.session);
    generations.push_back(BitsParameter(touch.generation));
    times.push_back(std::to_string(touch.expire_us));
  }
  return reads_
      .Run(kTouchSessions, {ArrayParameter(tenants), ArrayParameter(sessions),
                            ArrayParameter(generations), ArrayParameter(times)})
      .status();
}

absl::StatusOr<std::vector<std::string>> PostgresStore::ListGarbage(std::string_view tenant,
                                                                    std::string_view after,
                                                                    std::int64_t max_sessions) {
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult result,
                           reads_.Run(kListGarbage, {std::string(tenant), std::string(after),
                                                     std::to_string(max_sessions)}));
  std::vector<std::string> sessions;
  sessions.reserve(static_cast<std::size_t>(result.size()));
  for (int row = 0; row < result.size(); ++row) sessions.emplace_back(result.Text(row, 0));
  return sessions;
}

absl::StatusOr<SessionPurge> PostgresStore::PurgeSession(const SessionKey& key,
                                                         std::int64_t max_rows) {
  MEMORYD_ASSIGN_OR_RETURN(const QueryPool::Lease connection, readers_.Acquire(CallDeadline()));
  return SweepSession(*connection.operator->(), key, max_rows, timeout_);
}

absl::StatusOr<PurgedTraces> PostgresStore::RemoveTraces() {
  return PurgedTraces{.removed = true,
                      .left_elsewhere =
                          "PostgreSQL: dead rows until VACUUM has passed over memoryd's tables; "
                          "its WAL, and archives "
                          "and standbys that are made of it; backups"};
}

absl::Status PostgresStore::Ping() {
  const Deadline deadline = CallDeadline();
  if (exclusive_ != nullptr) return exclusive_->Hold(deadline);
  MEMORYD_ASSIGN_OR_RETURN(const QueryPool::Lease connection, lookups_.Acquire(deadline));
  const absl::StatusOr<bool> takes_writes = TakesWrites(*connection.operator->(), deadline);
  // A primary that has become a standby keeps its connections, and one that vanished without a word
  // never ends them. A server that is only slow goes on with them.
  if (takes_writes.ok() ? !*takes_writes : !connection->usable()) DropConnections();
  if (!takes_writes.ok()) return takes_writes.status();
  return *takes_writes ? absl::OkStatus() : StatusForSqlState(kSqlStateReadOnly);
}

absl::StatusOr<StoreInfo> PostgresStore::Describe() {
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult result, reads_.Run(kDescribe, {}));
  if (result.size() != 1) return absl::InternalError("the store did not describe itself");
  return StoreInfo{"postgresql", result.Int(0, 0),
                   DurabilityOf(result.Text(0, 1), result.Text(0, 2), result.Text(0, 3)),
                   settings_.names->unnamed()};
}

absl::Status PostgresStore::Connect() {
  MEMORYD_RETURN_IF_ERROR(writers_.Open(writer_count_, timeout_));
  // The others are opened when that many reads meet.
  return readers_.Open(1, timeout_);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenPostgresStore(const StoreOptions& options) {
  if (options.coherence == Coherence::kExclusive && options.transaction_pooling != Pooling::kNone) {
    return absl::FailedPreconditionError(
        "exclusive coherence needs a direct connection, not a pooler in transaction mode");
  }
  MEMORYD_ASSIGN_OR_RETURN(ConnectionSettings settings, MakeConnectionSettings(options));
  auto store = std::make_unique<PostgresStore>(options, std::move(settings));
  MEMORYD_RETURN_IF_ERROR(store->Ping());
  MEMORYD_RETURN_IF_ERROR(store->Connect());
  return store;
}

}  // namespace memoryd
