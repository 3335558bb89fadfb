#include "core/storage/sqlite/sqlite_purge.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "core/base/status_macros.h"

namespace memoryd::sqlite {
namespace {

constexpr std::int64_t kRowsPerStep = 200;
// Bodies are overwritten as they go (secure_delete), so bytes bound a step too.
constexpr std::int64_t kBytesPerStep = 4 << 20;
constexpr std::int64_t kBlocksPerStep = kBytesPerStep / std::int64_t{kMaxBlockState};

constexpr char kSelectGarbage[] =
    "SELECT tenant, session, generation, begin_position, end_position FROM memoryd_garbage LIMIT 1";

constexpr char kDeleteGarbage[] =
    "DELETE FROM memoryd_garbage"
    " WHERE tenant = ? AND session = ? AND generation = ? AND end_position = ?";

constexpr char kSelectRows[] =
    "SELECT position, length(body) FROM memoryd_messages"
    " WHERE tenant = ? AND session = ? AND generation = ? AND position >= ? AND position < ?"
    " ORDER BY position LIMIT ?";

constexpr char kDeleteRows[] =
    "DELETE FROM memoryd_messages"
    " WHERE tenant = ? AND session = ? AND generation = ? AND position >= ? AND position < ?";

constexpr char kDeleteBlocks[] =
    "DELETE FROM memoryd_blocks WHERE tenant = ? AND session = ? AND generation = ? AND name IN"
    " (SELECT name FROM memoryd_blocks WHERE tenant = ? AND session = ? AND generation = ? LIMIT "
    "?)";

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
    "  WHERE deleted AND update_us < ? ORDER BY update_us LIMIT ?)";

struct GarbageRow {
  std::string tenant;
  std::string session;
  std::uint64_t generation = 0;
  PositionRange range;
};

Query& BindGeneration(Query& query, const GarbageRow& garbage) {
  return query.BindText(garbage.tenant).BindText(garbage.session).BindBits(garbage.generation);
}

absl::StatusOr<std::optional<GarbageRow>> NextGarbage(Database& db) {
  Query query = db.Prepare(kSelectGarbage);
  MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
  if (!found) return std::nullopt;
  return GarbageRow{query.String(0), query.String(1), query.Bits(2), {query.Int(3), query.Int(4)}};
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

// Deletes rows of the generation by `sql`, at most `max_rows`; returns how many.
absl::StatusOr<std::int64_t> DeleteSome(Database& db, const char* sql, const GarbageRow& garbage,
                                        std::int64_t max_rows) {
  Query query = db.Prepare(sql);
  BindGeneration(BindGeneration(query, garbage), garbage).Bind(max_rows);
  MEMORYD_RETURN_IF_ERROR(query.Next().status());
  return db.changes();
}

absl::StatusOr<std::int64_t> PurgeGarbage(Database& db, std::int64_t max_rows) {
  MEMORYD_ASSIGN_OR_RETURN(const std::optional<GarbageRow> garbage, NextGarbage(db));
  if (!garbage.has_value()) return 0;
  MEMORYD_ASSIGN_OR_RETURN(const std::int64_t end, EndOfStep(db, *garbage, max_rows));
  std::int64_t deleted = 0;
  {
    Query query = db.Prepare(kDeleteRows);
    BindGeneration(query, *garbage).Bind(garbage->range.begin).Bind(end);
    MEMORYD_RETURN_IF_ERROR(query.Next().status());
    deleted = db.changes();
  }
  bool all_gone = end == garbage->range.end;
  for (const auto& [sql, most] :
       {std::pair(kDeleteJobs, max_rows), std::pair(kDeleteBlocks, kBlocksPerStep)}) {
    const std::int64_t limit = std::min(most, max_rows - deleted);
    MEMORYD_ASSIGN_OR_RETURN(const std::int64_t rows, DeleteSome(db, sql, *garbage, limit));
    deleted += rows;
    all_gone = all_gone && rows < limit;
  }
  // The entry counts as a row of its own: it goes in the next step when there is no room in this.
  if (all_gone && deleted < max_rows) {
    Query query = db.Prepare(kDeleteGarbage);
    BindGeneration(query, *garbage).Bind(garbage->range.end);
    MEMORYD_RETURN_IF_ERROR(query.Next().status());
    ++deleted;
  }
  return deleted;
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
  MEMORYD_ASSIGN_OR_RETURN(std::int64_t deleted, PurgeGarbage(db, max_rows));
  for (const char* sql : {kDeleteRequests, kDeleteEndedJobs, kDeleteTombstones}) {
    if (deleted > 0) break;
    MEMORYD_ASSIGN_OR_RETURN(deleted,
                             DeleteOlder(db, sql, limits.now_us - limits.keep_us, max_rows));
  }
  return deleted;
}

}  // namespace

absl::StatusOr<std::int64_t> PurgeStep(Database& db, const PurgeLimits& limits) {
  if (limits.max_rows <= 0) return 0;
  MEMORYD_RETURN_IF_ERROR(ToStatus(db.Run("BEGIN IMMEDIATE")));
  absl::StatusOr<std::int64_t> deleted = PurgeInTransaction(db, limits);
  if (deleted.ok() && *deleted > 0) {
    if (const int code = db.Run("COMMIT"); code != SQLITE_OK) deleted = ToStatus(code);
  }
  db.Rollback();
  return deleted;
}

}  // namespace memoryd::sqlite
