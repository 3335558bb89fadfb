// Statements that make, configure and delete namespaces.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_NAMESPACE_QUERIES_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_NAMESPACE_QUERIES_H_

#include "core/storage/postgres/query_connection.h"

namespace memoryd {

// With what is kept of a deleted namespace, see kDeletionId. A line that is inserted for that is
// locked, as one that is there: so the newest deletion is seen, also one that ends while the
// statement runs. It goes with the next purge.
inline constexpr Query kMakeNamespaces{
    "make_namespaces",
    "WITH k AS (SELECT * FROM unnest($1::text[], $2::bytea[], $3::text[], $4::bigint[], "
    "$5::bigint[], $8::text[]) WITH ORDINALITY "
    "AS k (tenant, namespace, path, generation, begun_us, subject, i)), "
    "b AS (INSERT INTO memoryd_item_requests AS s (tenant, namespace, request_id, fingerprint, "
    "results, create_us) SELECT k.tenant, k.namespace, '', '', '0', 0 FROM k "
    "ORDER BY k.tenant, k.namespace ON CONFLICT (tenant, namespace, request_id) "
    "DO UPDATE SET results = s.results RETURNING s.tenant, s.namespace, "
    "s.results::bigint AS version, CASE WHEN s.fingerprint = '' THEN 0 ELSE s.create_us END "
    "AS erased_us), "
    "m AS (INSERT INTO memoryd_namespaces (tenant, namespace, path, generation, version, "
    "config_version, vector_size, ttl_us, create_us, update_us, commit_tag, subject, config) "
    "SELECT k.tenant, k.namespace, k.path, k.generation, greatest($6::bigint, b.version + 1), "
    "greatest($6::bigint, b.version + 1), 0, $7::bigint, $6::bigint, $6::bigint, 0, k.subject, "
    "$9::bytea FROM k JOIN b USING (tenant, namespace) "
    "WHERE b.erased_us < k.begun_us ORDER BY k.tenant, k.namespace "
    "ON CONFLICT (tenant, namespace) DO NOTHING RETURNING tenant, namespace, version) "
    "SELECT k.i, (m.version IS NOT NULL)::int::bigint, b.erased_us FROM k "
    "JOIN b USING (tenant, namespace) LEFT JOIN m USING (tenant, namespace)"};

inline constexpr Query kConfigureNamespace{
    "configure_namespace",
    "UPDATE memoryd_namespaces s SET version = s.version + 1, config_version = s.version + 1, "
    "ttl_us = $4::bigint, update_us = $5::bigint, subject = $6, config = $7::bytea "
    "WHERE s.tenant = $1 AND s.namespace = $2::bytea AND s.config_version = $3::bigint RETURNING "
    "1"};

// Where there is none, a line of garbage all the same: an earlier deletion may have ended without
// its standby, and the commit of this line waits for it. A subject is compared on the newest row;
// what has become another's, or went, while the statement ran is told apart by 3 (see
// FoundForDeletion), and nothing of it is forgotten.
inline constexpr Query kDeleteNamespace{
    "delete_namespace",
    "WITH gone AS (DELETE FROM memoryd_namespaces s WHERE s.tenant = $1 AND s.namespace = "
    "$2::bytea "
    "AND ($7 = '' OR s.subject = $7) "
    "RETURNING s.tenant, s.namespace, s.generation, s.version), "
    "left_behind AS (INSERT INTO memoryd_item_garbage (tenant, namespace, generation) "
    "SELECT tenant, namespace, generation FROM gone UNION ALL SELECT $1, $2::bytea, $6::bigint "
    "WHERE NOT EXISTS (SELECT FROM gone) ON CONFLICT DO NOTHING), "
    "kept AS (INSERT INTO memoryd_item_requests AS s (tenant, namespace, request_id, fingerprint, "
    "results, create_us) SELECT tenant, namespace, '', CASE WHEN $3::boolean THEN 'e'::bytea "
    "ELSE '' END, version::text, $4::bigint FROM gone WHERE $3::boolean OR version > $5::bigint "
    "ON CONFLICT (tenant, namespace, request_id) DO UPDATE SET fingerprint = "
    "CASE WHEN s.fingerprint = '' THEN excluded.fingerprint ELSE s.fingerprint END, "
    "results = greatest(s.results::bigint, excluded.results::bigint)::text, "
    "create_us = greatest(s.create_us, excluded.create_us)), "
    "forgotten AS (UPDATE memoryd_item_requests s SET fingerprint = '', results = '' "
    "WHERE s.tenant = $1 AND s.namespace = $2::bytea AND s.request_id <> '' AND $3::boolean "
    "AND (EXISTS (SELECT FROM gone) OR NOT EXISTS (SELECT FROM memoryd_namespaces n "
    "WHERE n.tenant = $1 AND n.namespace = $2::bytea))) "
    "SELECT (CASE WHEN g.version IS NOT NULL THEN 1 WHEN n.version IS NULL THEN 0 "
    "WHEN $7 <> '' AND n.subject <> $7 THEN 2 ELSE 3 END)::bigint, coalesce(c.item_count, 0), "
    "coalesce(c.item_bytes, 0) FROM (SELECT 1) one LEFT JOIN gone g ON true "
    "LEFT JOIN memoryd_namespaces n ON n.tenant = $1 AND n.namespace = $2::bytea "
    "LEFT JOIN memoryd_item_counts c ON c.tenant = g.tenant AND c.namespace = g.namespace "
    "AND c.generation = g.generation"};

// What is staged for a namespace has a line among the records of request_ids, see StagingId(). A
// repetition changes nothing more.
inline constexpr Query kStageNamespace{
    "stage_namespace",
    "WITH i AS (INSERT INTO memoryd_item_requests AS s (tenant, namespace, request_id, "
    "fingerprint, results, create_us) SELECT $1, $2::bytea, $3, '', '', $4::bigint "
    "WHERE NOT EXISTS (SELECT FROM memoryd_namespaces n WHERE n.tenant = $1 "
    "AND n.namespace = $2::bytea) ON CONFLICT (tenant, namespace, request_id) "
    "DO UPDATE SET create_us = excluded.create_us RETURNING 1) "
    "SELECT (SELECT count(*) FROM i), coalesce((SELECT s.results::bigint "
    "FROM memoryd_item_requests s WHERE s.tenant = $1 AND s.namespace = $2::bytea "
    "AND s.request_id = ''), 0)"};

// Nothing is stored without the line. In the column `previous` comes out what was replaced, as in
// item_statement.cc.
inline constexpr Query kStageItems{
    "stage_items",
    "WITH m AS (UPDATE memoryd_item_requests s SET create_us = $5::bigint WHERE s.tenant = $1 "
    "AND s.namespace = $2::bytea AND s.request_id = $3 RETURNING 1), "
    "p AS (INSERT INTO memoryd_items AS s (tenant, namespace, generation, key, version, "
    "create_us, update_us, expire_us, ttl_us, bytes, kind, untrusted, checksum, mime_type, "
    "writer, search, vector, value, previous) SELECT $1, $2::bytea, $4::bigint, o.key, o.version, "
    "o.create_us, o.update_us, o.expire_us, o.ttl_us, o.bytes, o.kind, o.untrusted, o.checksum, "
    "o.mime_type, o.writer, nullif(o.search, ''), nullif(o.vector, ''), o.value, 0 "
    "FROM unnest($6::text[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], "
    "$11::bigint[], $12::bigint[], $13::smallint[], $14::boolean[], $15::bigint[], $16::text[], "
    "$17::text[], $18::bytea[], $19::bytea[], $20::bytea[]) AS o (key, version, create_us, "
    "update_us, expire_us, ttl_us, bytes, kind, untrusted, checksum, mime_type, writer, search, "
    "vector, value) WHERE EXISTS (SELECT FROM m) "
    "ON CONFLICT (tenant, namespace, generation, key) DO UPDATE SET version = excluded.version, "
    "create_us = excluded.create_us, update_us = excluded.update_us, "
    "expire_us = excluded.expire_us, ttl_us = excluded.ttl_us, bytes = excluded.bytes, "
    "kind = excluded.kind, untrusted = excluded.untrusted, checksum = excluded.checksum, "
    "mime_type = excluded.mime_type, writer = excluded.writer, search = excluded.search, "
    "vector = excluded.vector, value = excluded.value, previous = 2 * s.bytes + 2 "
    "RETURNING s.bytes, s.previous), "
    "c AS (INSERT INTO memoryd_item_counts AS s (tenant, namespace, generation, item_count, "
    "item_bytes) SELECT $1, $2::bytea, $4::bigint, y.items, y.bytes FROM (SELECT "
    "sum(CASE WHEN p.previous > 1 THEN 0 ELSE 1 END)::bigint AS items, "
    "sum(p.bytes - CASE WHEN p.previous > 1 THEN p.previous / 2 - 1 ELSE 0 END)::bigint AS bytes "
    "FROM p) y WHERE y.items IS NOT NULL ON CONFLICT (tenant, namespace, generation) DO UPDATE SET "
    "item_count = s.item_count + excluded.item_count, "
    "item_bytes = s.item_bytes + excluded.item_bytes) "
    "SELECT count(*) FROM m"};

// The line of the deletion is locked as in kMakeNamespaces.
inline constexpr Query kPublishNamespace{
    "publish_namespace",
    "WITH m AS (DELETE FROM memoryd_item_requests s WHERE s.tenant = $1 "
    "AND s.namespace = $2::bytea AND s.request_id = $3 RETURNING 1), "
    "b AS (INSERT INTO memoryd_item_requests AS s (tenant, namespace, request_id, fingerprint, "
    "results, create_us) VALUES ($1, $2::bytea, '', '', '0', 0) "
    "ON CONFLICT (tenant, namespace, request_id) DO UPDATE SET results = s.results "
    "RETURNING s.results::bigint AS version), "
    "n AS (INSERT INTO memoryd_namespaces (tenant, namespace, path, generation, version, "
    "config_version, vector_size, ttl_us, create_us, update_us, commit_tag, subject, config) "
    "SELECT $1, $2::bytea, $4, $5::bigint, $6::bigint, $6::bigint, $7::bigint, $8::bigint, "
    "$9::bigint, $10::bigint, 0, $11, $12::bytea FROM m, b WHERE b.version < $13::bigint "
    "ON CONFLICT (tenant, namespace) DO NOTHING RETURNING 1), "
    "g AS (INSERT INTO memoryd_item_garbage (tenant, namespace, generation) "
    "SELECT $1, $2::bytea, $5::bigint FROM m WHERE NOT EXISTS (SELECT FROM n) "
    "ON CONFLICT DO NOTHING) "
    "SELECT count(*) FROM n"};

inline constexpr Query kDropNamespace{
    "drop_namespace",
    "WITH m AS (DELETE FROM memoryd_item_requests s WHERE s.tenant = $1 "
    "AND s.namespace = $2::bytea AND s.request_id = $3 RETURNING 1) "
    "INSERT INTO memoryd_item_garbage (tenant, namespace, generation) "
    "SELECT $1, $2::bytea, $4::bigint FROM m ON CONFLICT DO NOTHING"};

// Nothing but what is staged has a time as small. By the rows' places, as the purges of
// item_queries.h.
inline constexpr Query kPurgeStaging{
    "purge_staging",
    "WITH m AS (DELETE FROM memoryd_item_requests WHERE ctid = ANY (ARRAY(SELECT ctid "
    "FROM memoryd_item_requests WHERE create_us < $1::bigint AND left(request_id, 1) = chr(1) "
    "ORDER BY create_us LIMIT $2::bigint)) AND create_us < $1::bigint "
    "AND left(request_id, 1) = chr(1) RETURNING tenant, namespace, request_id), "
    "g AS (INSERT INTO memoryd_item_garbage (tenant, namespace, generation) "
    "SELECT tenant, namespace, substr(request_id, 2)::bigint FROM m ON CONFLICT DO NOTHING) "
    "SELECT count(*) FROM m"};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_NAMESPACE_QUERIES_H_
