#include "core/storage/sqlite/schema.h"

#include <fmt/format.h>

#include <array>

#include "core/base/status_macros.h"

namespace memoryd::sqlite {
namespace {

// "memd", in the file's header: tells our files from other programs' (`file`, and Migrate).
constexpr std::int64_t kApplicationId = 0x6D656D64;

// The step to version i + 1 stands at index i. Never edit one that was released.
//
// WITHOUT ROWID keeps a session's messages side by side in the order they are read, and spares a
// second tree. Ids are text under SQLite's default collation, which compares bytes. Unsigned 64-bit
// numbers (generation, commit_tag) are stored as the signed number of the same bits.
constexpr std::array kSteps = {
    R"sql(
CREATE TABLE memoryd_sessions (
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  generation INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  next_position INTEGER NOT NULL,
  floor_position INTEGER NOT NULL,
  watermark INTEGER NOT NULL,
  pinned TEXT NOT NULL,
  active_count INTEGER NOT NULL,
  archived_count INTEGER NOT NULL,
  active_tokens INTEGER NOT NULL,
  create_us INTEGER NOT NULL,
  update_us INTEGER NOT NULL,
  deleted INTEGER NOT NULL,
  commit_tag INTEGER NOT NULL,
  config BLOB NOT NULL,
  PRIMARY KEY (tenant, session)
) WITHOUT ROWID;
CREATE INDEX memoryd_tombstones ON memoryd_sessions (update_us) WHERE deleted;

CREATE TABLE memoryd_messages (
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  generation INTEGER NOT NULL,
  position INTEGER NOT NULL,
  message_id TEXT,
  role INTEGER NOT NULL,
  token_count INTEGER NOT NULL,
  ingest_us INTEGER NOT NULL,
  tool_ids BLOB,
  body BLOB NOT NULL,
  PRIMARY KEY (tenant, session, generation, position)
) WITHOUT ROWID;
CREATE UNIQUE INDEX memoryd_message_ids
  ON memoryd_messages (tenant, session, generation, message_id) WHERE message_id IS NOT NULL;

CREATE TABLE memoryd_requests (
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  request_id TEXT NOT NULL,
  fingerprint BLOB NOT NULL,
  reply BLOB NOT NULL,
  create_us INTEGER NOT NULL,
  PRIMARY KEY (tenant, session, request_id)
) WITHOUT ROWID;
CREATE INDEX memoryd_request_age ON memoryd_requests (create_us);

CREATE TABLE memoryd_garbage (
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  generation INTEGER NOT NULL,
  -- Key columns come first: quick_check of SQLite 3.40 misreads the others of such a table.
  end_position INTEGER NOT NULL,
  begin_position INTEGER NOT NULL,
  PRIMARY KEY (tenant, session, generation, end_position)
) WITHOUT ROWID;
)sql",
};

absl::StatusOr<std::int64_t> ReadNumber(Database& db, const char* sql) {
  Query query = db.Prepare(sql);
  MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
  return found ? query.Int(0) : 0;
}

absl::Status MigrateInTransaction(Database& db) {
  MEMORYD_ASSIGN_OR_RETURN(const std::int64_t version, ReadNumber(db, "PRAGMA user_version"));
  MEMORYD_ASSIGN_OR_RETURN(const std::int64_t application, ReadNumber(db, "PRAGMA application_id"));
  MEMORYD_ASSIGN_OR_RETURN(const std::int64_t objects,
                           ReadNumber(db, "SELECT count(*) FROM sqlite_schema"));
  if (application != kApplicationId && objects > 0) {
    return absl::FailedPreconditionError("the store's file belongs to another program");
  }
  constexpr auto kVersion = static_cast<std::int64_t>(kSteps.size());
  if (version > kVersion) {
    return absl::FailedPreconditionError(
        fmt::format("the store has schema {}, this memoryd knows up to {}: use a newer memoryd",
                    version, kVersion));
  }
  for (auto step = static_cast<std::size_t>(version); step < kSteps.size(); ++step) {
    MEMORYD_RETURN_IF_ERROR(db.Script(kSteps[step]));
  }
  const std::string header =
      fmt::format("PRAGMA application_id={}; PRAGMA user_version={};", kApplicationId, kVersion);
  return db.Script(header.c_str());
}

}  // namespace

absl::Status MigrateSchema(Database& db) {
  MEMORYD_RETURN_IF_ERROR(ToStatus(db.Run("BEGIN IMMEDIATE")));
  absl::Status status = MigrateInTransaction(db);
  if (status.ok()) status = ToStatus(db.Run("COMMIT"));
  db.Rollback();
  return status;
}

}  // namespace memoryd::sqlite
