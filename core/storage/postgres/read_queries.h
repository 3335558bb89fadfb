// The statements of the store's reads. Each one works on a single session's key range, or on keys.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_READ_QUERIES_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_READ_QUERIES_H_

#include "core/model/session.h"
#include "core/storage/before_schema_12.h"
#include "core/storage/postgres/query_connection.h"
#include "core/storage/postgres/row_codec.h"

namespace memoryd {

// Of the types of the rows that have them.
#define MEMORYD_NO_SESSION                                                                     \
  "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, " \
  "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL"
#define MEMORYD_NO_MESSAGE                                                                    \
  "NULL::bigint AS position, NULL, NULL::smallint, NULL::bigint, NULL::bigint, NULL::bytea, " \
  "NULL::bytea, NULL::bigint"
#define MEMORYD_NO_BLOCK                                                                       \
  "NULL::text COLLATE \"C\" AS name, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, " \
  "NULL::bigint, NULL::bytea"

// The row, then the blocks, then the active messages behind its watermark, the pinned ones and the
// one at `opening` before it, of one snapshot and by ranges of the primary keys. The row comes
// once: its configuration may be larger than all that follows. Beside it stands how much the active
// messages are, unless the row tells that it is at most $3: above that none of them is sent.
// Without the LIMIT, which never cuts anything, the planner would rather read a whole table that is
// mostly one session.
inline constexpr Query kLoadSession{
    "load_session",
    "WITH s AS (SELECT * FROM memoryd_sessions WHERE tenant = $1 AND session = $2), "
    "a AS (SELECT CASE WHEN deleted OR message_bytes + 256 * active_count <= $3::bigint THEN 0 "
    "ELSE (SELECT coalesce(sum(octet_length(r.body) + 256), 0)::bigint FROM ("
    "SELECT body FROM memoryd_messages WHERE tenant = $1 AND session = $2 "
    "AND generation = (SELECT generation FROM s) AND position >= (SELECT watermark FROM s) "
    "ORDER BY position LIMIT (SELECT greatest(next_position - watermark, 1000000) FROM s)) r) "
    "+ (SELECT coalesce(sum(octet_length(p.body) + 256), 0)::bigint FROM memoryd_messages p "
    "WHERE p.tenant = $1 AND p.session = $2 AND p.generation = s.generation "
    "AND p.position = ANY (s.pinned) AND p.position < s.watermark) END AS bytes FROM s) "
    "SELECT " MEMORYD_SESSION_COLUMNS ", " MEMORYD_NO_MESSAGE ", " MEMORYD_NO_BLOCK
    ", a.bytes FROM s, a "
    "UNION ALL SELECT " MEMORYD_NO_SESSION ", " MEMORYD_MESSAGE_COLUMNS ", " MEMORYD_NO_BLOCK
    ", NULL FROM (SELECT * FROM memoryd_messages WHERE tenant = $1 AND session = $2 "
    "AND generation = (SELECT generation FROM s) AND position >= (SELECT watermark FROM s) "
    "ORDER BY position LIMIT (SELECT greatest(next_position - watermark, 1000000) FROM s)) m "
    "WHERE (SELECT NOT deleted FROM s) AND (SELECT bytes FROM a) <= $3::bigint "
    "UNION ALL SELECT " MEMORYD_NO_SESSION ", " MEMORYD_MESSAGE_COLUMNS ", " MEMORYD_NO_BLOCK
    ", NULL FROM s JOIN memoryd_messages m ON m.tenant = $1 AND m.session = $2 "
    "AND m.generation = s.generation AND m.position = ANY (s.pinned || s.opening) "
    "AND m.position < s.watermark WHERE NOT s.deleted "
    "AND (SELECT bytes FROM a) <= $3::bigint "
    "UNION ALL SELECT " MEMORYD_NO_SESSION ", " MEMORYD_NO_MESSAGE ", " MEMORYD_BLOCK_COLUMNS
    ", NULL"
    " FROM s JOIN memoryd_blocks b ON b.tenant = $1 AND b.session = $2 "
    "AND b.generation = s.block_generation WHERE NOT s.deleted "
    "ORDER BY position NULLS FIRST, name NULLS FIRST"};

static_assert(kActiveMessageBytes == 256, "as load_session counts");

#undef MEMORYD_NO_SESSION
#undef MEMORYD_NO_MESSAGE
#undef MEMORYD_NO_BLOCK

// The size of a body is known without reading it from where large ones are kept.
inline constexpr Query kReadRange{
    "read_range",
    "SELECT " MEMORYD_MESSAGE_COLUMNS
    " FROM (SELECT *, row_number() OVER (ORDER BY position) AS n, "
    "sum(octet_length(body)) OVER (ORDER BY position) AS bytes FROM (SELECT * "
    "FROM memoryd_messages WHERE tenant = $1 AND session = $2 AND generation = $3::bigint "
    "AND position >= $4::bigint AND position < $5::bigint ORDER BY position LIMIT $6::bigint) r) m "
    "WHERE m.n = 1 OR m.bytes <= $7::bigint ORDER BY m.position"};

// The newest of them, by the same key from its other end.
inline constexpr Query kReadNewest{
    "read_newest",
    "SELECT " MEMORYD_MESSAGE_COLUMNS
    " FROM (SELECT *, row_number() OVER (ORDER BY position DESC) AS n, "
    "sum(octet_length(body)) OVER (ORDER BY position DESC) AS bytes FROM (SELECT * "
    "FROM memoryd_messages WHERE tenant = $1 AND session = $2 AND generation = $3::bigint "
    "AND position >= $4::bigint AND position < $5::bigint "
    "ORDER BY position DESC LIMIT $6::bigint) r) m "
    "WHERE m.n = 1 OR m.bytes <= $7::bigint ORDER BY m.position DESC"};

inline constexpr Query kReadPositions{
    "read_positions",
    "SELECT " MEMORYD_MESSAGE_COLUMNS
    ", m.bytes FROM (SELECT *, row_number() OVER (ORDER BY position) AS n, "
    "sum(octet_length(body)) OVER () AS bytes FROM memoryd_messages WHERE tenant = $1 "
    "AND session = $2 AND generation = $3::bigint AND position = ANY ($4::bigint[])) m "
    "WHERE m.n = 1 OR m.bytes <= $5::bigint ORDER BY m.position"};

inline constexpr Query kFindPositions{
    "find_positions",
    "SELECT position FROM memoryd_messages WHERE tenant = $1 AND session = $2 "
    "AND generation = $3::bigint AND message_id = ANY ($4::text[]) ORDER BY position"};

inline constexpr Query kReadSizes{
    "read_sizes",
    "SELECT position, token_count, octet_length(body) FROM memoryd_messages WHERE tenant = $1 "
    "AND session = $2 AND generation = $3::bigint AND position >= $4::bigint "
    "AND position < $5::bigint ORDER BY position DESC LIMIT $6::bigint"};

inline constexpr Query kRevisions{
    "revisions",
    "SELECT k.n, s.generation, s.revision FROM unnest($1::text[], $2::text[]) WITH ORDINALITY "
    "AS k (tenant, session, n) JOIN memoryd_sessions s ON s.tenant = k.tenant "
    "AND s.session = k.session WHERE NOT s.deleted"};

inline constexpr Query kFindRequests{
    "find_requests",
    "SELECT request_id, fingerprint, reply, create_us FROM memoryd_requests "
    "WHERE tenant = $1 AND session = $2 AND request_id = ANY ($3::text[])"};

// A commit whose wait for the standby was cut short can be seen, and lost by a failover. The commit
// of this one waits for all that came before it.
inline constexpr char kConfirmRequests[] =
    "UPDATE memoryd_requests SET create_us = create_us "
    "WHERE tenant = $1 AND session = $2 AND request_id = ANY ($3::text[])";

// Of sessions in an order, one more than the $3 that are wanted: as many as $4 bytes of
// configurations allow, which stand beside the rows until they are sent. With how many there are.
// The ids begin with $6, and so stand before $7.
#define MEMORYD_LISTED \
  "SELECT s.session, " MEMORYD_SESSION_COLUMNS_WITH(                                           \
      "CASE WHEN $5::boolean THEN s.config ELSE '' END")                                       \
      ", s.listed FROM (SELECT *, row_number() OVER w AS n, sum(CASE WHEN $5::boolean "        \
      "THEN octet_length(config) ELSE 0 END) OVER w AS bytes, count(*) OVER () AS listed FROM ("
#define MEMORYD_OF_LISTED(order)                                             \
  " ORDER BY " order " LIMIT $3::bigint + 1) r WINDOW w AS (ORDER BY " order \
  ")) s "                                                                    \
  "WHERE s.n <= $3::bigint AND (s.n = 1 OR s.bytes <= $4::bigint) ORDER BY s.n"

inline constexpr Query kListSessions{
    "list_sessions", MEMORYD_LISTED
    "SELECT * FROM memoryd_sessions r WHERE r.tenant = $1 AND r.session > $2 "
    "AND r.session >= $6 AND r.session < $7 AND NOT r.deleted" MEMORYD_OF_LISTED("r.session")};

// The condition of the index, which a plan for any subject could not know to hold.
inline constexpr Query kListSubject{
    "list_subject", MEMORYD_LISTED
    "SELECT * FROM memoryd_sessions r WHERE r.tenant = $1 AND r.session > $2 "
    "AND r.session >= $6 AND r.session < $7 AND r.subject = $8 AND r.subject <> '' "
    "AND (NOT r.deleted OR $9::boolean)" MEMORYD_OF_LISTED("r.session")};

inline constexpr Query kListLatest{
    "list_latest", MEMORYD_LISTED
    "SELECT * FROM memoryd_sessions r WHERE r.tenant = $1 AND r.session >= $6 "
    "AND r.session < $7 AND r.subject = $8 AND r.subject <> '' AND NOT r.deleted "
    "AND (r.update_us < $9::bigint OR (r.update_us = $9::bigint AND r.session > "
    "$2))" MEMORYD_OF_LISTED("r.update_us DESC, r.session")};

#undef MEMORYD_LISTED
#undef MEMORYD_OF_LISTED

inline constexpr Query kCountRequests{
    "count_requests",
    "SELECT count(*) FROM memoryd_requests WHERE tenant = $1 AND session = $2 "
    "AND fingerprint <> '' AND create_us >= greatest((SELECT coalesce(max(before_us), 0) "
    "FROM memoryd_forgotten WHERE tenant = $1 AND session = $2), "
    "(SELECT coalesce(max(end_position), 0) "
    "FROM memoryd_garbage WHERE tenant = $1 AND session = $2 AND generation = 0))"};

static_assert(kForgottenGeneration == 0, "as count_requests has it");

inline constexpr Query kListGarbage{
    "list_garbage",
    "(SELECT DISTINCT session FROM memoryd_garbage WHERE tenant = $1 AND session > $2 "
    "ORDER BY session LIMIT $3::bigint) UNION "
    "(SELECT session FROM memoryd_forgotten WHERE tenant = $1 AND session > $2 "
    "ORDER BY session LIMIT $3::bigint) ORDER BY session LIMIT $3::bigint"};

#define MEMORYD_DUE_COLUMNS                             \
  "s.tenant, s.session, " MEMORYD_SESSION_COLUMNS_WITH( \
      "CASE WHEN octet_length(s.config) <= $3::bigint THEN s.config ELSE '' END")

inline constexpr Query kListExpiring{
    "list_expiring", "SELECT " MEMORYD_DUE_COLUMNS
                     " FROM memoryd_sessions s WHERE s.expire_us > 0 AND s.expire_us <= $1::bigint "
                     "AND NOT s.deleted ORDER BY s.expire_us LIMIT $2::bigint"};

inline constexpr Query kListDropping{
    "list_dropping", "SELECT " MEMORYD_DUE_COLUMNS
                     " FROM memoryd_sessions s WHERE s.drop_us > 0 AND s.drop_us <= $1::bigint "
                     "AND NOT s.deleted ORDER BY s.drop_us LIMIT $2::bigint"};

#undef MEMORYD_DUE_COLUMNS

inline constexpr Query kTouchSessions{
    "touch_sessions",
    "UPDATE memoryd_sessions s SET expire_us = k.expire_us FROM unnest($1::text[], $2::text[], "
    "$3::bigint[], $4::bigint[]) AS k (tenant, session, generation, expire_us) "
    "WHERE s.tenant = k.tenant AND s.session = k.session AND s.generation = k.generation "
    "AND s.expire_us > 0 AND s.expire_us < k.expire_us AND NOT s.deleted"};

inline constexpr Query kReadUsage{
    "read_usage",
    "SELECT count(*), coalesce(sum(active_count + archived_count + content_count), 0)::bigint, "
    "coalesce(sum(message_bytes + content_bytes + octet_length(config)), 0)::bigint "
    "FROM memoryd_sessions "
    "WHERE tenant = $1 AND NOT deleted"};

// In transaction pooling as well, since the pooler's connections have the settings that commits
// get.
inline constexpr Query kDescribe{
    "describe",
    "SELECT coalesce(max(version), 0), current_setting('fsync'), "
    "current_setting('synchronous_commit'), current_setting('synchronous_standby_names') "
    "FROM memoryd_schema"};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_READ_QUERIES_H_
