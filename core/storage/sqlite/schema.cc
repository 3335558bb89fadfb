#include "core/storage/sqlite/schema.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/storage/schema_steps.h"
#include "core/storage/sqlite/database.h"
#include "core/storage/sqlite/sqlite_store.h"

namespace memoryd::sqlite {
namespace {

// "memd", in the file's header: tells our files from other programs' (`file`, and Migrate).
constexpr std::int64_t kApplicationId = 0x6D656D64;

// The step to version i + 1 stands at index i. Never edit one that was released; a new one stands
// in kSqliteReadableFrom too.
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
    // Contents are rows of memoryd_messages under content_generation.
    R"sql(
ALTER TABLE memoryd_sessions ADD COLUMN content_generation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE memoryd_sessions ADD COLUMN next_content INTEGER NOT NULL DEFAULT 1;
ALTER TABLE memoryd_sessions ADD COLUMN content_count INTEGER NOT NULL DEFAULT 0;
)sql",
    // What blocks know, and the jobs that feed them. A block's state comes last: it may take many
    // pages, and claiming reads `done` alone. `ready`: see job_order.h. The indexes of jobs serve
    // the claimer, the sweeper and the operator, who work for all tenants; none of them holds more
    // than its part of the rows.
    R"sql(
ALTER TABLE memoryd_sessions ADD COLUMN block_generation INTEGER NOT NULL DEFAULT 0;

CREATE TABLE memoryd_blocks (
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  generation INTEGER NOT NULL,
  name TEXT NOT NULL,
  done INTEGER NOT NULL,
  next INTEGER NOT NULL,
  entry_generation INTEGER NOT NULL,
  next_entry INTEGER NOT NULL,
  update_us INTEGER NOT NULL,
  state BLOB NOT NULL,
  PRIMARY KEY (tenant, session, generation, name)
) WITHOUT ROWID;

CREATE TABLE memoryd_jobs (
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  generation INTEGER NOT NULL,
  block TEXT NOT NULL,
  number INTEGER NOT NULL,
  message_generation INTEGER NOT NULL,
  begin_position INTEGER NOT NULL,
  end_position INTEGER NOT NULL,
  state INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  create_us INTEGER NOT NULL,
  update_us INTEGER NOT NULL,
  due INTEGER NOT NULL,
  ready INTEGER NOT NULL,
  lease INTEGER NOT NULL,
  lease_until INTEGER NOT NULL,
  last_error BLOB NOT NULL,
  calls INTEGER NOT NULL,
  prompt_tokens INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  PRIMARY KEY (tenant, session, generation, block, number)
) WITHOUT ROWID;
CREATE INDEX memoryd_ready_jobs ON memoryd_jobs (due) WHERE state = 0 AND ready = 1;
CREATE INDEX memoryd_counted_jobs ON memoryd_jobs (state, create_us) WHERE state IN (0, 2);
CREATE INDEX memoryd_ended_jobs ON memoryd_jobs (update_us) WHERE state <> 0;
)sql",
    // Not counted up for what is stored already: that could take longer than a start may.
    R"sql(
ALTER TABLE memoryd_sessions ADD COLUMN message_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE memoryd_sessions ADD COLUMN content_bytes INTEGER NOT NULL DEFAULT 0;
  )sql",
    // See checksum.h; 0: none.
    R"sql(
ALTER TABLE memoryd_messages ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
)sql",
    R"sql(
ALTER TABLE memoryd_sessions ADD COLUMN edit_revision INTEGER NOT NULL DEFAULT 0;
)sql",
    // Written only when it changes: most commits leave the index alone.
    R"sql(
ALTER TABLE memoryd_sessions ADD COLUMN subject TEXT NOT NULL DEFAULT '';
CREATE INDEX memoryd_subjects ON memoryd_sessions (tenant, subject, session) WHERE subject <> '';
)sql",
    // As the subject. The indexes serve the sweeper, who works for all tenants.
    R"sql(
ALTER TABLE memoryd_sessions ADD COLUMN expire_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE memoryd_sessions ADD COLUMN drop_us INTEGER NOT NULL DEFAULT 0;
CREATE INDEX memoryd_expiring ON memoryd_sessions (expire_us) WHERE expire_us > 0;
CREATE INDEX memoryd_dropping ON memoryd_sessions (drop_us) WHERE drop_us > 0;
)sql",
    // See value.h. Values that are stored already stay where they are: moving them could take
    // longer than a start may. AUTOINCREMENT: an id is never used again, so a row whose value is
    // lost can't name that of another tenant.
    R"sql(
CREATE TABLE memoryd_values (id INTEGER PRIMARY KEY AUTOINCREMENT, value BLOB NOT NULL);

CREATE TRIGGER memoryd_message_deleted AFTER DELETE ON memoryd_messages
  WHEN typeof(old.body) = 'integer' OR typeof(old.tool_ids) = 'integer'
  BEGIN DELETE FROM memoryd_values WHERE id IN (old.body, old.tool_ids); END;
CREATE TRIGGER memoryd_message_replaced AFTER UPDATE OF body, tool_ids ON memoryd_messages
  WHEN typeof(old.body) = 'integer' OR typeof(old.tool_ids) = 'integer'
  BEGIN
    DELETE FROM memoryd_values WHERE id IN (old.body, old.tool_ids)
      AND id IS NOT new.body AND id IS NOT new.tool_ids;
  END;

CREATE TRIGGER memoryd_session_deleted AFTER DELETE ON memoryd_sessions
  WHEN typeof(old.config) = 'integer'
  BEGIN DELETE FROM memoryd_values WHERE id = old.config; END;
CREATE TRIGGER memoryd_config_replaced AFTER UPDATE OF config ON memoryd_sessions
  WHEN typeof(old.config) = 'integer' AND old.config IS NOT new.config
  BEGIN DELETE FROM memoryd_values WHERE id = old.config; END;

CREATE TRIGGER memoryd_block_deleted AFTER DELETE ON memoryd_blocks
  WHEN typeof(old.state) = 'integer'
  BEGIN DELETE FROM memoryd_values WHERE id = old.state; END;
CREATE TRIGGER memoryd_state_replaced AFTER UPDATE OF state ON memoryd_blocks
  WHEN typeof(old.state) = 'integer' AND old.state IS NOT new.state
  BEGIN DELETE FROM memoryd_values WHERE id = old.state; END;

CREATE TRIGGER memoryd_request_deleted AFTER DELETE ON memoryd_requests
  WHEN typeof(old.reply) = 'integer'
  BEGIN DELETE FROM memoryd_values WHERE id = old.reply; END;
CREATE TRIGGER memoryd_reply_replaced AFTER UPDATE OF reply ON memoryd_requests
  WHEN typeof(old.reply) = 'integer' AND old.reply IS NOT new.reply
  BEGIN DELETE FROM memoryd_values WHERE id = old.reply; END;
)sql",
    R"sql(
ALTER TABLE memoryd_sessions ADD COLUMN opening INTEGER NOT NULL DEFAULT 0;
)sql",
    // See docs/adr/0063-items.md. Tables with rowids: an item's row may have megabytes, which a
    // search in a WITHOUT ROWID table would read, and its second index would repeat the key. A
    // large value stands apart even so, since a read that refreshes a ttl writes the row anew.
    R"sql(
CREATE TABLE memoryd_namespaces (
  id INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  path TEXT NOT NULL,
  generation INTEGER NOT NULL,
  version INTEGER NOT NULL,
  config_version INTEGER NOT NULL,
  item_count INTEGER NOT NULL,
  item_bytes INTEGER NOT NULL,
  vector_size INTEGER NOT NULL,
  ttl_us INTEGER NOT NULL,
  create_us INTEGER NOT NULL,
  update_us INTEGER NOT NULL,
  commit_tag INTEGER NOT NULL,
  subject TEXT NOT NULL,
  config BLOB NOT NULL
);
CREATE UNIQUE INDEX memoryd_namespace_paths ON memoryd_namespaces (tenant, path);
CREATE UNIQUE INDEX memoryd_namespace_generations ON memoryd_namespaces (tenant, generation);
CREATE INDEX memoryd_namespace_subjects ON memoryd_namespaces (tenant, subject, path)
  WHERE subject <> '';

CREATE TABLE memoryd_items (
  id INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  generation INTEGER NOT NULL,
  key TEXT NOT NULL,
  version INTEGER NOT NULL,
  create_us INTEGER NOT NULL,
  update_us INTEGER NOT NULL,
  expire_us INTEGER NOT NULL,
  ttl_us INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  untrusted INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  mime_type TEXT NOT NULL,
  writer TEXT NOT NULL,
  search BLOB,
  vector BLOB,
  value BLOB
);
CREATE UNIQUE INDEX memoryd_item_keys ON memoryd_items (tenant, generation, key);
CREATE UNIQUE INDEX memoryd_item_versions ON memoryd_items (tenant, generation, version);
CREATE INDEX memoryd_expiring_items ON memoryd_items (expire_us) WHERE expire_us > 0;

-- Values of items whose own is NULL.
CREATE TABLE memoryd_item_values (id INTEGER PRIMARY KEY, value BLOB NOT NULL);
CREATE TRIGGER memoryd_item_deleted AFTER DELETE ON memoryd_items WHEN old.value IS NULL
  BEGIN DELETE FROM memoryd_item_values WHERE id = old.id; END;

CREATE TABLE memoryd_item_requests (
  tenant TEXT NOT NULL,
  path TEXT NOT NULL,
  request_id TEXT NOT NULL,
  fingerprint BLOB NOT NULL,
  results TEXT NOT NULL,
  create_us INTEGER NOT NULL,
  PRIMARY KEY (tenant, path, request_id)
) WITHOUT ROWID;
CREATE INDEX memoryd_item_request_age ON memoryd_item_requests (create_us);

CREATE TABLE memoryd_item_garbage (
  tenant TEXT NOT NULL,
  generation INTEGER NOT NULL,
  PRIMARY KEY (tenant, generation)
) WITHOUT ROWID;
)sql",
    // See before_schema_12.h, where rows from before this step are read.
    R"sql(
ALTER TABLE memoryd_sessions ADD COLUMN has_timed_items INTEGER NOT NULL DEFAULT 0;

CREATE TABLE memoryd_forgotten (
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  before_us INTEGER NOT NULL,
  PRIMARY KEY (tenant, session)
) WITHOUT ROWID;
)sql",
};

static_assert(kSteps.size() == kReleasedSteps);

std::int64_t Newest() {
  return static_cast<std::int64_t>(kReleasedSteps + LaterSteps(kSqliteStore.scheme).size());
}

// The step to version `from` + 1.
SchemaStep StepFrom(std::int64_t from) {
  const auto index = static_cast<std::size_t>(from);
  return index < kReleasedSteps ? SchemaStep{kSteps[index], kSqliteReadableFrom[index]}
                                : LaterSteps(kSqliteStore.scheme)[index - kReleasedSteps];
}

absl::StatusOr<std::int64_t> ReadNumber(Database& db, const char* sql) {
  Query query = db.Prepare(sql);
  MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
  return found ? query.Int(0) : 0;
}

// FAILED_PRECONDITION unless a newer schema says that this binary can work on it.
absl::Status CheckReadable(Database& db, std::int64_t version) {
  MEMORYD_ASSIGN_OR_RETURN(
      const std::int64_t marked,
      ReadNumber(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'memoryd_schema'"));
  std::int64_t readable_from = version;
  if (marked > 0) {
    Query query = db.Prepare(
        "SELECT max(readable_from) FROM memoryd_schema WHERE version > ? HAVING count(*) = ?");
    query.Bind(Newest()).Bind(version - Newest());
    MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
    if (found) readable_from = query.Int(0);
  }
  if (readable_from <= Newest()) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "the store has schema {}, for memoryd from schema {} on, and this one knows up to "
      "{}: use a newer memoryd",
      version, readable_from, Newest()));
}

absl::Status MigrateInTransaction(Database& db) {
  MEMORYD_ASSIGN_OR_RETURN(const std::int64_t version, SchemaVersion(db));
  MEMORYD_ASSIGN_OR_RETURN(const std::int64_t application, ReadNumber(db, "PRAGMA application_id"));
  MEMORYD_ASSIGN_OR_RETURN(const std::int64_t objects,
                           ReadNumber(db, "SELECT count(*) FROM sqlite_schema"));
  if (application != kApplicationId && objects > 0) {
    return absl::FailedPreconditionError("the store's file belongs to another program");
  }
  if (version > Newest()) return CheckReadable(db, version);
  if (version < Newest()) {
    MEMORYD_RETURN_IF_ERROR(
        db.Script("CREATE TABLE IF NOT EXISTS memoryd_schema"
                  " (version INTEGER PRIMARY KEY, readable_from INTEGER NOT NULL)"));
  }
  for (std::int64_t next = version; next < Newest(); ++next) {
    const SchemaStep step = StepFrom(next);
    MEMORYD_RETURN_IF_ERROR(db.Script(step.sql));
    MEMORYD_RETURN_IF_ERROR(db.Script(
        fmt::format("REPLACE INTO memoryd_schema VALUES ({}, {})", next + 1, step.readable_from)
            .c_str()));
  }
  const std::string header =
      fmt::format("PRAGMA application_id={}; PRAGMA user_version={};", kApplicationId, Newest());
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

absl::StatusOr<std::int64_t> SchemaVersion(Database& db) {
  return ReadNumber(db, "PRAGMA user_version");
}

}  // namespace memoryd::sqlite
