#include "core/storage/sqlite/sqlite_purge.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/model/job.h"
#include "core/model/session.h"
#include "core/storage/before_schema_12.h"
#include "core/storage/sqlite/database.h"
#include "core/storage/sqlite/value.h"
#include "core/storage/store.h"

namespace memoryd::sqlite {
namespace {

constexpr std::int64_t kRowsPerStep = 200;
// Bodies are overwritten as they go (secure_delete), so bytes bound a step too.
constexpr std::int64_t kBytesPerStep = 4 << 20;
constexpr std::int64_t kBlocksPerStep = kBytesPerStep / std::int64_t{kMaxBlockState};

constexpr char kSelectGarbage[] =
    "SELECT tenant, session, generation, begin_position, end_position FROM memoryd_garbage LIMIT 1";

constexpr char kSelectGarbageOfSession[] =
    "SELECT tenant, session, generation, begin_position, end_position FROM memoryd_garbage"
    " WHERE tenant = ? AND session = ? LIMIT 1";

constexpr char kSelectForgotten[] =
    "SELECT tenant, session, before_us FROM memoryd_forgotten LIMIT 1";

constexpr char kSelectForgottenOfSession[] =
    "SELECT tenant, session, before_us FROM memoryd_forgotten WHERE tenant = ? AND session = ?";

constexpr char kListGarbage[] =
    "SELECT session FROM memoryd_garbage WHERE tenant = ? AND session > ?"
    " UNION SELECT session FROM memoryd_forgotten WHERE tenant = ? AND session > ?"
    " ORDER BY session LIMIT ?";

constexpr char kForgetRequests[] =
    "UPDATE memoryd_requests SET fingerprint = x'', reply = x''"
    " WHERE tenant = ? AND session = ? AND request_id IN"
    " (SELECT request_id FROM memoryd_requests WHERE tenant = ? AND session = ?"
    "  AND create_us < ? AND fingerprint <> x'' LIMIT ?)";

constexpr char kDeleteForgotten[] =
    "DELETE FROM memoryd_forgotten WHERE tenant = ? AND session = ? AND before_us <= ?";

// The same as binaries of schema 11 and before have it.
constexpr char kDeleteForgottenGarbage[] =
    "DELETE FROM memoryd_garbage WHERE tenant = ? AND session = ? AND generation = 0"
    " AND end_position <= ?";

constexpr char kDeleteGarbage[] =
    "DELETE FROM memoryd_garbage"
    " WHERE tenant = ? AND session = ? AND generation = ? AND end_position = ?";

constexpr char kSelectRows[] =
    "SELECT position, " MEMORYD_LENGTH_OF("body") " FROM memoryd_messages"
    " WHERE tenant = ? AND session = ? AND generation = ? AND position >= ? AND position < ?"
    " ORDER BY position LIMIT ?";

constexpr char kDeleteRows[] =
    "DELETE FROM memoryd_messages"
    " WHERE tenant = ? AND session = ? AND generation = ? AND position >= ? AND position < ?";

constexpr char kDeleteBlocks[] =
    "DELETE FROM memoryd_blocks WHERE tenant = ? AND session = ? AND generation = ? AND name IN"
    " (SELECT name FROM memoryd_blocks WHERE tenant = ? AND session = ? AND generation = ? LIMIT "
    "?) RETURNING entry_generation, next_entry";

constexpr char kInsertGarbage[] =
    "INSERT INTO memoryd_garbage (tenant, session, generation, begin_position, end_position)"
    " VALUES (?, ?, ?, 0, ?) ON CONFLICT DO NOTHING";

constexpr char kDeleteJobs[] =
    "DELETE FROM memoryd_jobs"
    " WHERE tenant = ? AND session = ? AND generation = ? AND (block, number) IN"
    " (SELECT block, number FROM memoryd_jobs"
    "  WHERE tenant = ? AND session = ? AND generation = ? LIMIT ?)";

constexpr char kDeleteEndedJobs[] =
    "DELETE FROM memoryd_jobs WHERE (tenant, session, generation, block, number) IN"
    " (SELECT tenant, session, generation, block, number FROM memoryd_jobs"
    "  WHERE state <> 0 AND update_us < ? ORDER BY update_us LIMIT ?)";

constexpr char kDeleteRequests[] =
    "DELETE FROM memoryd_requests WHERE (tenant, session, request_id) IN"
    " (SELECT tenant, session, request_id FROM memoryd_requests"
    "  WHERE create_us < ? ORDER BY create_us LIMIT ?)";

constexpr char kDeleteTombstones[] =
    "DELETE FROM memoryd_sessions WHERE (tenant, session) IN"
    " (SELECT tenant, session FROM memoryd_sessions"
    "  WHERE deleted AND update_us < ? ORDER BY update_us LIMIT ?)"
    " RETURNING tenant, session, generation, next_position, message_bytes, content_generation,"
    " next_content, block_generation";

constexpr char kTouch[] =
    "UPDATE memoryd_sessions SET expire_us = ? WHERE tenant = ? AND session = ? AND generation = ?"
    " AND expire_us > 0 AND expire_us < ? AND NOT deleted";

struct GarbageRow {
  std::string tenant;
  std::string session;
  std::uint64_t generation = 0;
  PositionRange range;
};

// The session's request records from before this time are to be forgotten.
struct ForgottenRow {
  std::string tenant;
  std::string session;
  std::int64_t before_us = 0;
};

Query& BindGeneration(Query& query, const GarbageRow& garbage) {
  return query.BindText(garbage.tenant).BindText(garbage.session).BindBits(garbage.generation);
}

// Of one session, or of any where `key` is null.
absl::StatusOr<std::optional<GarbageRow>> NextGarbage(Database& db, const SessionKey* key) {
  Query query = db.Prepare(key == nullptr ? kSelectGarbage : kSelectGarbageOfSession);
  if (key != nullptr) query.BindText(key->tenant).BindText(key->session);
  MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
  if (!found) return std::nullopt;
  return GarbageRow{query.String(0), query.String(1), query.Bits(2), {query.Int(3), query.Int(4)}};
}

absl::StatusOr<std::optional<ForgottenRow>> NextForgotten(Database& db, const SessionKey* key) {
  Query query = db.Prepare(key == nullptr ? kSelectForgotten : kSelectForgottenOfSession);
  if (key != nullptr) query.BindText(key->tenant).BindText(key->session);
  MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
  if (!found) return std::nullopt;
  return ForgottenRow{query.String(0), query.String(1), query.Int(2)};
}

// The end of the part of the garbage that goes in one step of at most `max_rows` rows.
absl::StatusOr<std::int64_t> EndOfStep(Database& db, const GarbageRow& garbage,
                                       std::int64_t max_rows) {
  Query query = db.Prepare(kSelectRows);
  // One row more than may go tells whether the range ends here.
  BindGeneration(query, garbage)
      .Bind(garbage.range.begin)
      .Bind(garbage.range.end)
      .Bind(max_rows + 1);
  std::int64_t bytes = 0;
  for (std::int64_t rows = 0;; ++rows) {
    MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
    if (!found) return garbage.range.end;
    bytes += query.Int(1);
    if (rows > 0 && (rows == max_rows || bytes > kBytesPerStep)) return query.Int(0);
  }
}

absl::StatusOr<std::int64_t> DeleteJobs(Database& db, const GarbageRow& garbage,
                                        std::int64_t max_rows) {
  Query query = db.Prepare(kDeleteJobs);
  BindGeneration(BindGeneration(query, garbage), garbage).Bind(max_rows);
  MEMORYD_RETURN_IF_ERROR(query.Next().status());
  return db.changes();
}

absl::Status AddGarbage(Database& db, std::string_view tenant, std::string_view session,
                        std::uint64_t generation, std::int64_t end) {
  Query query = db.Prepare(kInsertGarbage);
  query.BindText(tenant).BindText(session).BindBits(generation).Bind(end);
  return query.Next().status();
}

// Entries that nothing but their block's row names are garbage from then on.
absl::StatusOr<std::int64_t> DeleteBlocks(Database& db, const GarbageRow& garbage,
                                          std::int64_t max_rows) {
  std::vector<std::pair<std::uint64_t, std::int64_t>> entries;
  std::int64_t deleted = 0;
  {
    Query query = db.Prepare(kDeleteBlocks);
    BindGeneration(BindGeneration(query, garbage), garbage).Bind(max_rows);
    for (;; ++deleted) {
      MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
      if (!found) break;
      if (query.Bits(0) != 0) entries.emplace_back(query.Bits(0), query.Int(1));
    }
  }
  for (const auto& [generation, end] : entries) {
    MEMORYD_RETURN_IF_ERROR(AddGarbage(db, garbage.tenant, garbage.session, generation, end));
  }
  return deleted;
}

// What was staged under a tombstone and never published is garbage from then on.
absl::StatusOr<std::int64_t> DeleteTombstones(Database& db, std::int64_t before_us,
                                              std::int64_t max_rows) {
  std::vector<GarbageRow> staged;
  std::int64_t deleted = 0;
  {
    Query query = db.Prepare(kDeleteTombstones);
    query.Bind(before_us).Bind(max_rows);
    for (;; ++deleted) {
      MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
      if (!found) break;
      const auto add = [&](std::uint64_t generation, std::int64_t end) {
        staged.push_back({query.String(0), query.String(1), generation, {0, end}});
      };
      if (query.Int(4) > 0) add(query.Bits(2), query.Int(3));
      if (query.Bits(5) != 0) add(query.Bits(5), query.Int(6));
      if (query.Bits(7) != 0) add(query.Bits(7), 1);
    }
  }
  for (const GarbageRow& row : staged) {
    MEMORYD_RETURN_IF_ERROR(AddGarbage(db, row.tenant, row.session, row.generation, row.range.end));
  }
  return deleted;
}

// What a step has deleted of one range of garbage.
struct Step {
  std::int64_t rows = 0;
  bool all_gone = false;
};

absl::StatusOr<std::int64_t> ForgetRequests(Database& db, const ForgottenRow& forgotten,
                                            std::int64_t max_rows) {
  const auto& [tenant, session, before_us] = forgotten;
  std::int64_t rows = 0;
  {
    Query query = db.Prepare(kForgetRequests);
    query.BindText(tenant).BindText(session).BindText(tenant).BindText(session);
    query.Bind(before_us).Bind(max_rows);
    MEMORYD_RETURN_IF_ERROR(query.Next().status());
    rows = db.changes();
  }
  if (rows == max_rows) return rows;
  for (const char* sql : {kDeleteForgotten, kDeleteForgottenGarbage}) {
    Query query = db.Prepare(sql);
    query.BindText(tenant).BindText(session).Bind(before_us);
    MEMORYD_RETURN_IF_ERROR(query.Next().status());
  }
  // What says so counts as a row of its own.
  return rows + 1;
}

absl::StatusOr<Step> DeleteGeneration(Database& db, const GarbageRow& garbage,
                                      std::int64_t max_rows) {
  MEMORYD_ASSIGN_OR_RETURN(const std::int64_t end, EndOfStep(db, garbage, max_rows));
  Step step;
  {
    Query query = db.Prepare(kDeleteRows);
    BindGeneration(query, garbage).Bind(garbage.range.begin).Bind(end);
    MEMORYD_RETURN_IF_ERROR(query.Next().status());
    step.rows = db.changes();
  }
  step.all_gone = end == garbage.range.end;
  {
    const std::int64_t limit = max_rows - step.rows;
    MEMORYD_ASSIGN_OR_RETURN(const std::int64_t rows, DeleteJobs(db, garbage, limit));
    step.rows += rows;
    step.all_gone = step.all_gone && rows < limit;
  }
  {
    const std::int64_t limit = std::min(kBlocksPerStep, max_rows - step.rows);
    MEMORYD_ASSIGN_OR_RETURN(const std::int64_t rows, DeleteBlocks(db, garbage, limit));
    step.rows += rows;
    step.all_gone = step.all_gone && rows < limit;
  }
  return step;
}

absl::StatusOr<std::int64_t> PurgeGarbage(Database& db, const SessionKey* key,
                                          std::int64_t max_rows) {
  MEMORYD_ASSIGN_OR_RETURN(const std::optional<ForgottenRow> forgotten, NextForgotten(db, key));
  if (forgotten.has_value()) return ForgetRequests(db, *forgotten, max_rows);
  MEMORYD_ASSIGN_OR_RETURN(const std::optional<GarbageRow> garbage, NextGarbage(db, key));
  if (!garbage.has_value()) return 0;
  if (garbage->generation == kForgottenGeneration) {
    return ForgetRequests(db, {garbage->tenant, garbage->session, garbage->range.end}, max_rows);
  }
  MEMORYD_ASSIGN_OR_RETURN(Step step, DeleteGeneration(db, *garbage, max_rows));
  // The entry counts as a row of its own: it goes in the next step when there is no room in this.
  if (step.all_gone && step.rows < max_rows) {
    Query query = db.Prepare(kDeleteGarbage);
    BindGeneration(query, *garbage).Bind(garbage->range.end);
    MEMORYD_RETURN_IF_ERROR(query.Next().status());
    ++step.rows;
  }
  return step.rows;
}

absl::StatusOr<std::int64_t> DeleteOlder(Database& db, const char* sql, std::int64_t before_us,
                                         std::int64_t max_rows) {
  Query query = db.Prepare(sql);
  query.Bind(before_us).Bind(max_rows);
  MEMORYD_RETURN_IF_ERROR(query.Next().status());
  return db.changes();
}

absl::StatusOr<std::int64_t> PurgeInTransaction(Database& db, const PurgeLimits& limits) {
  const std::int64_t max_rows = std::min(limits.max_rows, kRowsPerStep);
  MEMORYD_ASSIGN_OR_RETURN(std::int64_t deleted, PurgeGarbage(db, nullptr, max_rows));
  const std::int64_t before_us = limits.now_us - limits.keep_us;
  for (const char* sql : {kDeleteRequests, kDeleteEndedJobs}) {
    if (deleted > 0) break;
    MEMORYD_ASSIGN_OR_RETURN(deleted, DeleteOlder(db, sql, before_us, max_rows));
  }
  if (deleted == 0) {
    MEMORYD_ASSIGN_OR_RETURN(deleted, DeleteTombstones(db, before_us, max_rows));
  }
  return deleted;
}

// Runs a step that says how many rows went, in a transaction of its own.
template <typename RunStep>
absl::StatusOr<std::int64_t> InTransaction(Database& db, const RunStep& run) {
  MEMORYD_RETURN_IF_ERROR(ToStatus(db.Run("BEGIN IMMEDIATE")));
  absl::StatusOr<std::int64_t> deleted = run();
  if (deleted.ok() && *deleted > 0) {
    if (const int code = db.Run("COMMIT"); code != SQLITE_OK) deleted = ToStatus(code);
  }
  db.Rollback();
  return deleted;
}

}  // namespace

absl::StatusOr<std::int64_t> PurgeStep(Database& db, const PurgeLimits& limits) {
  if (limits.max_rows <= 0) return 0;
  return InTransaction(db, [&] { return PurgeInTransaction(db, limits); });
}

absl::StatusOr<std::int64_t> PurgeSessionStep(Database& db, const SessionKey& key,
                                              std::int64_t max_rows) {
  return InTransaction(db,
                       [&] { return PurgeGarbage(db, &key, std::min(max_rows, kRowsPerStep)); });
}

absl::Status TouchSessions(Database& db, std::span<const SessionTouch> touches) {
  const auto touch = [&]() -> absl::StatusOr<std::int64_t> {
    for (const SessionTouch& touched : touches) {
      Query query = db.Prepare(kTouch);
      query.Bind(touched.expire_us)
          .BindText(touched.key.tenant)
          .BindText(touched.key.session)
          .BindBits(touched.generation)
          .Bind(touched.expire_us);
      MEMORYD_RETURN_IF_ERROR(query.Next().status());
    }
    return static_cast<std::int64_t>(touches.size());
  };
  return InTransaction(db, touch).status();
}

absl::StatusOr<std::vector<std::string>> ListGarbage(Database& db, std::string_view tenant,
                                                     std::string_view after,
                                                     std::int64_t max_sessions) {
  Query query = db.Prepare(kListGarbage);
  query.BindText(tenant).BindText(after).BindText(tenant).BindText(after);
  query.Bind(std::max<std::int64_t>(0, max_sessions));
  std::vector<std::string> sessions;
  for (;;) {
    MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
    if (!found) return sessions;
    sessions.push_back(query.String(0));
  }
}

}  // namespace memoryd::sqlite
