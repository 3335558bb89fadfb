#include "core/storage/postgres/migrations.h"

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/storage/postgres/connection_settings.h"
#include "core/storage/postgres/postgres_store.h"
#include "core/storage/postgres/query_connection.h"
#include "core/storage/schema_steps.h"

namespace memoryd {
namespace {

// Index i leads from version i to i + 1. What has been released is never changed; a new one stands
// in kPostgresReadableFrom too.
//
// Names compare bytewise (COLLATE "C"), and every key begins with (tenant, session), so that the
// tables can be distributed by hash. Half of a session's page is left free and no index holds a
// column that a commit changes, so that commits are heap-only updates. The two other indexes serve
// the sweeper: `deleted` changes with deletion only, and no request row's time ever does.
constexpr const char* kMigrations[] = {
    R"sql(
CREATE TABLE memoryd_sessions (
  tenant text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  generation bigint NOT NULL,
  revision bigint NOT NULL,
  previous_revision bigint NOT NULL,
  next_position bigint NOT NULL,
  floor_position bigint NOT NULL,
  watermark bigint NOT NULL,
  pinned bigint[] NOT NULL,
  active_count bigint NOT NULL,
  archived_count bigint NOT NULL,
  active_tokens bigint NOT NULL,
  create_us bigint NOT NULL,
  update_us bigint NOT NULL,
  deleted boolean NOT NULL,
  commit_tag bigint NOT NULL,
  config bytea,
  CONSTRAINT memoryd_sessions_pkey PRIMARY KEY (tenant, session)
) WITH (fillfactor = 50);
CREATE INDEX memoryd_sessions_deleted ON memoryd_sessions (tenant, session) WHERE deleted;

CREATE TABLE memoryd_messages (
  tenant text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  generation bigint NOT NULL,
  position bigint NOT NULL,
  message_id text COLLATE "C",
  role smallint NOT NULL,
  token_count bigint NOT NULL,
  ingest_us bigint NOT NULL,
  tool_ids bytea NOT NULL,
  body bytea NOT NULL,
  CONSTRAINT memoryd_messages_pkey PRIMARY KEY (tenant, session, generation, position)
);
CREATE UNIQUE INDEX memoryd_messages_message_id
  ON memoryd_messages (tenant, session, generation, message_id) WHERE message_id IS NOT NULL;

CREATE TABLE memoryd_requests (
  tenant text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  request_id text COLLATE "C" NOT NULL,
  fingerprint bytea NOT NULL,
  reply bytea NOT NULL,
  create_us bigint NOT NULL,
  CONSTRAINT memoryd_requests_pkey PRIMARY KEY (tenant, session, request_id)
);
CREATE INDEX memoryd_requests_create_us ON memoryd_requests (create_us);

CREATE TABLE memoryd_garbage (
  tenant text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  generation bigint NOT NULL,
  begin_position bigint NOT NULL,
  end_position bigint NOT NULL,
  CONSTRAINT memoryd_garbage_pkey PRIMARY KEY (tenant, session, generation, end_position)
);
)sql",
    // Contents are rows of memoryd_messages under content_generation. Constant defaults rewrite no
    // row.
    R"sql(
ALTER TABLE memoryd_sessions
  ADD COLUMN content_generation bigint NOT NULL DEFAULT 0,
  ADD COLUMN next_content bigint NOT NULL DEFAULT 1,
  ADD COLUMN content_count bigint NOT NULL DEFAULT 0;
)sql",
    // What blocks know, and the jobs that feed them. `ready`: see job_order.h. The indexes of jobs
    // do not begin with (tenant, session): they serve the claimer, the sweeper and the operator,
    // who work for all tenants, and each holds no more than its part of the rows. Claiming and
    // prolonging change no column of an index, so they are heap-only updates where the page has
    // room.
    R"sql(
ALTER TABLE memoryd_sessions ADD COLUMN block_generation bigint NOT NULL DEFAULT 0;

CREATE TABLE memoryd_blocks (
  tenant text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  generation bigint NOT NULL,
  name text COLLATE "C" NOT NULL,
  done bigint NOT NULL,
  next bigint NOT NULL,
  entry_generation bigint NOT NULL,
  next_entry bigint NOT NULL,
  update_us bigint NOT NULL,
  state bytea NOT NULL,
  CONSTRAINT memoryd_blocks_pkey PRIMARY KEY (tenant, session, generation, name)
) WITH (fillfactor = 50);

CREATE TABLE memoryd_jobs (
  tenant text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  generation bigint NOT NULL,
  block text COLLATE "C" NOT NULL,
  number bigint NOT NULL,
  message_generation bigint NOT NULL,
  begin_position bigint NOT NULL,
  end_position bigint NOT NULL,
  state smallint NOT NULL,
  attempts bigint NOT NULL,
  create_us bigint NOT NULL,
  update_us bigint NOT NULL,
  due bigint NOT NULL,
  ready smallint NOT NULL,
  lease bigint NOT NULL,
  lease_until bigint NOT NULL,
  last_error bytea NOT NULL,
  calls bigint NOT NULL,
  prompt_tokens bigint NOT NULL,
  completion_tokens bigint NOT NULL,
  CONSTRAINT memoryd_jobs_pkey PRIMARY KEY (tenant, session, generation, block, number)
) WITH (fillfactor = 70);
CREATE INDEX memoryd_jobs_ready ON memoryd_jobs (due) WHERE state = 0 AND ready = 1;
CREATE INDEX memoryd_jobs_counted ON memoryd_jobs (state, create_us) WHERE state IN (0, 2);
CREATE INDEX memoryd_jobs_ended ON memoryd_jobs (update_us) WHERE state <> 0;
)sql",
    // Not counted up for what is stored already: that could take longer than a start may.
    R"sql(
ALTER TABLE memoryd_sessions
  ADD COLUMN message_bytes bigint NOT NULL DEFAULT 0,
  ADD COLUMN content_bytes bigint NOT NULL DEFAULT 0;
  )sql",
    // See checksum.h; 0: none. A constant default rewrites no table.
    R"sql(
ALTER TABLE memoryd_messages ADD COLUMN checksum bigint NOT NULL DEFAULT 0;
)sql",
    R"sql(
ALTER TABLE memoryd_sessions ADD COLUMN edit_revision bigint NOT NULL DEFAULT 0;
)sql",
    // NULL: none, as the empty text. Most commits do not change it, and so stay heap-only updates.
    R"sql(
ALTER TABLE memoryd_sessions ADD COLUMN subject text COLLATE "C";
CREATE INDEX memoryd_sessions_subject ON memoryd_sessions (tenant, subject, session)
  WHERE subject <> '';
)sql",
    // NULL: never, as 0. Rounded, so that only some commits of sessions that have retention change
    // them; the others, and all of sessions that have none, stay heap-only updates. The indexes
    // serve the sweeper, who works for all tenants.
    R"sql(
ALTER TABLE memoryd_sessions ADD COLUMN expire_us bigint, ADD COLUMN drop_us bigint;
CREATE INDEX memoryd_sessions_expire_us ON memoryd_sessions (expire_us) WHERE expire_us > 0;
CREATE INDEX memoryd_sessions_drop_us ON memoryd_sessions (drop_us) WHERE drop_us > 0;
)sql",
    // SQLite's step: PostgreSQL keeps large values apart by itself.
    "SELECT 1",
    // A constant default rewrites no table.
    R"sql(
ALTER TABLE memoryd_sessions ADD COLUMN opening bigint NOT NULL DEFAULT 0;
)sql",
    // See docs/adr/0063-items.md. `namespace` is 16 bytes of the path's SHA-256: a path may have
    // more bytes than an index can hold, and so is found in order by its beginning. A namespace and
    // its items lie together, as a session and its rows. Counts stand apart from the row that a
    // write locks first, since they are known last. The index of versions holds an expression, so
    // that look-ups by key can't take it for the primary key: both begin with one namespace.
    R"sql(
CREATE TABLE memoryd_namespaces (
  tenant text COLLATE "C" NOT NULL,
  namespace bytea NOT NULL,
  path text COLLATE "C" NOT NULL,
  generation bigint NOT NULL,
  version bigint NOT NULL,
  config_version bigint NOT NULL,
  vector_size bigint NOT NULL,
  ttl_us bigint NOT NULL,
  create_us bigint NOT NULL,
  update_us bigint NOT NULL,
  commit_tag bigint NOT NULL,
  subject text COLLATE "C" NOT NULL,
  config bytea NOT NULL,
  CONSTRAINT memoryd_namespaces_pkey PRIMARY KEY (tenant, namespace)
) WITH (fillfactor = 50);
CREATE INDEX memoryd_namespaces_path ON memoryd_namespaces (tenant, left(path, 512));
CREATE INDEX memoryd_namespaces_subject ON memoryd_namespaces (tenant, subject)
  WHERE subject <> '';

CREATE TABLE memoryd_items (
  tenant text COLLATE "C" NOT NULL,
  namespace bytea NOT NULL,
  generation bigint NOT NULL,
  key text COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  create_us bigint NOT NULL,
  update_us bigint NOT NULL,
  expire_us bigint NOT NULL,
  ttl_us bigint NOT NULL,
  bytes bigint NOT NULL,
  kind smallint NOT NULL,
  untrusted boolean NOT NULL,
  checksum bigint NOT NULL,
  mime_type text COLLATE "C" NOT NULL,
  writer text COLLATE "C" NOT NULL,
  previous bigint NOT NULL,
  search bytea,
  vector bytea,
  value bytea NOT NULL,
  CONSTRAINT memoryd_items_pkey PRIMARY KEY (tenant, namespace, generation, key)
);
CREATE INDEX memoryd_items_version ON memoryd_items ((generation + 0), version);
CREATE INDEX memoryd_items_expire_us ON memoryd_items (expire_us) WHERE expire_us > 0;

CREATE TABLE memoryd_item_counts (
  tenant text COLLATE "C" NOT NULL,
  namespace bytea NOT NULL,
  generation bigint NOT NULL,
  item_count bigint NOT NULL,
  item_bytes bigint NOT NULL,
  CONSTRAINT memoryd_item_counts_pkey PRIMARY KEY (tenant, namespace, generation)
) WITH (fillfactor = 50);

CREATE TABLE memoryd_item_requests (
  tenant text COLLATE "C" NOT NULL,
  namespace bytea NOT NULL,
  request_id text COLLATE "C" NOT NULL,
  fingerprint bytea NOT NULL,
  results text NOT NULL,
  create_us bigint NOT NULL,
  CONSTRAINT memoryd_item_requests_pkey PRIMARY KEY (tenant, namespace, request_id)
);
CREATE INDEX memoryd_item_requests_create_us ON memoryd_item_requests (create_us);

CREATE TABLE memoryd_item_garbage (
  tenant text COLLATE "C" NOT NULL,
  namespace bytea NOT NULL,
  generation bigint NOT NULL,
  CONSTRAINT memoryd_item_garbage_pkey PRIMARY KEY (tenant, namespace, generation)
);
)sql",
    // has_timed_items is NULL: no, or a row of a server that has no such column. See
    // before_schema_12.h, where rows of such servers are read.
    R"sql(
ALTER TABLE memoryd_sessions ADD COLUMN has_timed_items boolean;

CREATE TABLE memoryd_forgotten (
  tenant text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  before_us bigint NOT NULL,
  CONSTRAINT memoryd_forgotten_pkey PRIMARY KEY (tenant, session)
);
)sql",
};
static_assert(std::size(kMigrations) == kReleasedSteps);

std::int64_t Newest() {
  return static_cast<std::int64_t>(kReleasedSteps + LaterSteps(kPostgresStore.scheme).size());
}

// The step to version `from` + 1.
SchemaStep StepFrom(std::int64_t from) {
  const auto index = static_cast<std::size_t>(from);
  return index < kReleasedSteps ? SchemaStep{kMigrations[index], kPostgresReadableFrom[index]}
                                : LaterSteps(kPostgresStore.scheme)[index - kReleasedSteps];
}

// For all statements together, without waiting for locks.
constexpr std::chrono::milliseconds kMigrationTime(60'000);

// The version of the schema. FAILED_PRECONDITION when it is newer than this binary and does not say
// that this can work on it.
absl::StatusOr<std::int64_t> StoredVersion(QueryConnection& connection, Deadline deadline) {
  // By way of JSON, since the column came later than the table.
  MEMORYD_ASSIGN_OR_RETURN(
      const QueryResult found,
      connection.RunText(fmt::format("SELECT coalesce(max(version), 0), coalesce(max(coalesce("
                                     "(to_jsonb(s) ->> 'readable_from')::bigint, version)) "
                                     "FILTER (WHERE version > {}), 0) FROM memoryd_schema s",
                                     Newest()),
                         deadline));
  const std::int64_t version = found.Int(0, 0), readable_from = found.Int(0, 1);
  if (readable_from <= Newest()) return version;
  return absl::FailedPreconditionError(
      fmt::format("the store's schema is version {}, for memoryd from schema {} on, and this one "
                  "knows {}: upgrade memoryd",
                  version, readable_from, Newest()));
}

absl::Status Apply(QueryConnection& connection, std::chrono::milliseconds lock_timeout,
                   Deadline deadline) {
  MEMORYD_RETURN_IF_ERROR(
      connection
          .RunText(fmt::format("SET LOCAL lock_timeout = {}; SET LOCAL statement_timeout = {}",
                               lock_timeout.count(), kMigrationTime.count()),
                   deadline)
          .status());
  MEMORYD_RETURN_IF_ERROR(
      connection.RunText(fmt::format("SELECT pg_advisory_xact_lock({})", kMigrationLock), deadline)
          .status());
  // Not by to_regclass: waiting for an advisory lock does not refresh what the backend remembers
  // about tables that did not exist.
  MEMORYD_RETURN_IF_ERROR(
      connection
          .RunText("CREATE TABLE IF NOT EXISTS memoryd_schema (version bigint PRIMARY KEY); "
                   "ALTER TABLE memoryd_schema ADD COLUMN IF NOT EXISTS readable_from bigint",
                   deadline)
          .status());
  MEMORYD_ASSIGN_OR_RETURN(const std::int64_t version, StoredVersion(connection, deadline));
  for (std::int64_t next = version; next < Newest(); ++next) {
    const SchemaStep step = StepFrom(next);
    MEMORYD_RETURN_IF_ERROR(connection.RunText(step.sql, deadline).status());
    MEMORYD_RETURN_IF_ERROR(
        connection
            .RunText(
                fmt::format("INSERT INTO memoryd_schema (version, readable_from) VALUES ({}, {})",
                            next + 1, step.readable_from),
                deadline)
            .status());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MigrateSchema(QueryConnection& connection, std::chrono::milliseconds lock_timeout) {
  const Deadline deadline = std::chrono::steady_clock::now() + lock_timeout + kMigrationTime;
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult encoding,
                           connection.RunText("SHOW server_encoding", deadline));
  if (encoding.Text(0, 0) != "UTF8") {
    return absl::FailedPreconditionError("the store's database must have the encoding UTF8");
  }
  // A server without the right to create tables can still start on an up-to-date schema.
  MEMORYD_ASSIGN_OR_RETURN(
      const QueryResult table,
      connection.RunText("SELECT to_regclass('memoryd_schema') IS NOT NULL", deadline));
  if (table.Text(0, 0) == "t") {
    MEMORYD_ASSIGN_OR_RETURN(const std::int64_t version, StoredVersion(connection, deadline));
    if (version >= Newest()) return absl::OkStatus();
  }

  MEMORYD_RETURN_IF_ERROR(connection.Begin(deadline));
  if (absl::Status status = Apply(connection, lock_timeout, deadline); !status.ok()) {
    connection.Rollback(deadline);
    return status;
  }
  return connection.Commit(deadline);
}

}  // namespace memoryd
