// Statements on items and namespaces, but for those that write batches and namespaces.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_ITEM_QUERIES_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_ITEM_QUERIES_H_

#include "core/storage/postgres/query_connection.h"

namespace memoryd {

// The columns in the order the decoders expect them, of the table `s`. Behind them come the vector
// and the value, or NULL.
#define MEMORYD_ITEM_COLUMNS                                                                 \
  "s.key, s.version, s.create_us, s.update_us, s.expire_us, s.ttl_us, s.kind, s.untrusted, " \
  "s.checksum, s.mime_type, s.writer, s.search, s.bytes"
#define MEMORYD_NAMESPACE_COLUMNS                                                             \
  "s.generation, s.version, s.config_version, coalesce((SELECT c.item_count "                 \
  "FROM memoryd_item_counts c WHERE c.tenant = s.tenant AND c.namespace = s.namespace "       \
  "AND c.generation = s.generation), 0), coalesce((SELECT c.item_bytes "                      \
  "FROM memoryd_item_counts c WHERE c.tenant = s.tenant AND c.namespace = s.namespace "       \
  "AND c.generation = s.generation), 0), s.vector_size, s.ttl_us, s.create_us, s.update_us, " \
  "s.subject, s.config"
inline constexpr int kItemColumnCount = 15;
inline constexpr int kNamespaceColumnCount = 11;

// Where one namespace is large among many small ones, PostgreSQL expects one row of it, and would
// read all of its rows to find a few by their keys. So what looks up keys joins a subselect that
// OFFSET keeps whole, or asks for a range: then the key is in the condition of the index.

// Of one namespace; apart from kReadItems, for which PostgreSQL can't tell how many namespaces
// there are. Where values and vectors together are more than $6 bytes, none is read.
inline constexpr Query kReadItemsOfNamespace{
    "read_items_of_namespace",
    "SELECT sum(s.bytes) OVER (), " MEMORYD_ITEM_COLUMNS
    ", CASE WHEN $5::boolean AND sum(s.bytes) OVER () <= $6::bigint THEN s.vector END, "
    "CASE WHEN sum(s.bytes) OVER () <= $6::bigint THEN s.value END, k.i "
    "FROM (SELECT n.tenant, n.namespace, n.generation, u.key, u.i FROM memoryd_namespaces n "
    "CROSS JOIN unnest($3::text[]) WITH ORDINALITY AS u (key, i) "
    "WHERE n.tenant = $1 AND n.namespace = $2::bytea OFFSET 0) k "
    "JOIN memoryd_items s ON s.tenant = k.tenant AND s.namespace = k.namespace "
    "AND s.generation = k.generation AND s.key = k.key "
    "WHERE s.expire_us = 0 OR s.expire_us > $4::bigint"};

inline constexpr Query kReadItems{
    "read_items", "SELECT sum(s.bytes) OVER (), " MEMORYD_ITEM_COLUMNS
                  ", CASE WHEN $5::boolean AND sum(s.bytes) OVER () <= $6::bigint "
                  "THEN s.vector END, "
                  "CASE WHEN sum(s.bytes) OVER () <= $6::bigint THEN s.value END, k.i "
                  "FROM (SELECT n.tenant, n.namespace, n.generation, u.key, u.i "
                  "FROM unnest($1::text[], $2::bytea[], $3::text[]) WITH ORDINALITY "
                  "AS u (tenant, namespace, key, i) JOIN memoryd_namespaces n "
                  "ON n.tenant = u.tenant AND n.namespace = u.namespace OFFSET 0) k "
                  "JOIN memoryd_items s ON s.tenant = k.tenant AND s.namespace = k.namespace "
                  "AND s.generation = k.generation AND s.key = k.key "
                  "WHERE s.expire_us = 0 OR s.expire_us > $4::bigint"};

// A page of at most $7 rows and $8 bytes. Of rows that are left out no value is read. The
// generation comes by a subselect, not by a join, behind which PostgreSQL would sort.
#define MEMORYD_LIST_BY_KEY(MEMORYD_ORDER)                                                 \
  "WITH page AS (SELECT s.*, sum(s.bytes) OVER (ORDER BY " MEMORYD_ORDER                   \
  ") AS total FROM memoryd_items s WHERE s.tenant = $1 AND s.namespace = $2::bytea "       \
  "AND s.generation = (SELECT n.generation FROM memoryd_namespaces n WHERE n.tenant = $1 " \
  "AND n.namespace = $2::bytea AND ($3::bigint = 0 OR n.generation = $3::bigint)) "        \
  "AND s.key >= $5 AND s.key < $6 "                                                        \
  "AND (s.expire_us = 0 OR s.expire_us > $4::bigint) ORDER BY " MEMORYD_ORDER              \
  " LIMIT $7::bigint) SELECT (SELECT count(*) FROM page), " MEMORYD_ITEM_COLUMNS           \
  ", CASE WHEN $10::boolean THEN s.vector END, CASE WHEN $9::boolean THEN s.value END, "   \
  "s.generation "                                                                          \
  "FROM page s WHERE s.total - s.bytes < $8::bigint ORDER BY " MEMORYD_ORDER

inline constexpr Query kListItemsByKey{"list_items_by_key", MEMORYD_LIST_BY_KEY("s.key")};
inline constexpr Query kListItemsByKeyDescending{"list_items_by_key_descending",
                                                 MEMORYD_LIST_BY_KEY("s.key DESC")};

// By the index of versions, which begins with this expression. A generation is one namespace's
// alone. The namespace is asked for behind it: PostgreSQL would take the primary key, and sort.
#define MEMORYD_LIST_BY_VERSION(MEMORYD_ORDER)                                                   \
  "WITH page AS (SELECT s.*, sum(s.bytes) OVER (ORDER BY " MEMORYD_ORDER                         \
  ") AS total FROM memoryd_items s "                                                             \
  "WHERE s.generation + 0 = (SELECT n.generation FROM memoryd_namespaces n WHERE n.tenant = $1 " \
  "AND n.namespace = $2::bytea AND ($3::bigint = 0 OR n.generation = $3::bigint)) "              \
  "AND s.version > $5::bigint AND s.version < $6::bigint "                                       \
  "AND s.key >= $11 AND s.key < $12 "                                                            \
  "AND (s.expire_us = 0 OR s.expire_us > $4::bigint) ORDER BY " MEMORYD_ORDER                    \
  " LIMIT $7::bigint) SELECT (SELECT count(*) FROM page), " MEMORYD_ITEM_COLUMNS                 \
  ", CASE WHEN $10::boolean THEN s.vector END, CASE WHEN $9::boolean THEN s.value END, "         \
  "s.generation "                                                                                \
  "FROM page s WHERE s.tenant = $1 AND s.namespace = $2::bytea "                                 \
  "AND s.total - s.bytes < $8::bigint ORDER BY " MEMORYD_ORDER

inline constexpr Query kListItemsByVersion{"list_items_by_version",
                                           MEMORYD_LIST_BY_VERSION("s.version")};
inline constexpr Query kListItemsByVersionDescending{"list_items_by_version_descending",
                                                     MEMORYD_LIST_BY_VERSION("s.version DESC")};
#undef MEMORYD_LIST_BY_VERSION
#undef MEMORYD_LIST_BY_KEY

inline constexpr Query kFindNamespaces{
    "find_namespaces",
    "SELECT k.i, " MEMORYD_NAMESPACE_COLUMNS
    " FROM unnest($1::text[], $2::bytea[]) "
    "WITH ORDINALITY AS k (tenant, namespace, i) "
    "JOIN memoryd_namespaces s ON s.tenant = k.tenant AND s.namespace = k.namespace"};

// By the index of the paths' beginnings; paths themselves may be too long for one.
inline constexpr Query kListNamespaces{
    "list_namespaces",
    "SELECT " MEMORYD_NAMESPACE_COLUMNS
    ", s.path FROM memoryd_namespaces s WHERE s.tenant = $1 "
    "AND left(s.path, 512) >= left(greatest($2, $3), 512) AND left(s.path, 512) <= left($4, 512) "
    "AND s.path > $2 AND s.path >= $3 AND s.path < $4 "
    "ORDER BY left(s.path, 512), s.path LIMIT $5::bigint"};

inline constexpr Query kListSubjectNamespaces{
    "list_subject_namespaces",
    "SELECT " MEMORYD_NAMESPACE_COLUMNS
    ", s.path FROM memoryd_namespaces s WHERE s.tenant = $1 "
    "AND s.subject = $6 AND s.subject <> '' AND s.path > $2 AND s.path >= $3 AND s.path < $4 "
    "ORDER BY s.path LIMIT $5::bigint"};

inline constexpr Query kFindItemRequests{
    "find_item_requests",
    "SELECT request_id, fingerprint, results, create_us FROM memoryd_item_requests "
    "WHERE tenant = $1 AND namespace = $2::bytea AND request_id = ANY($3::text[])"};

// Keeps that a batch of deletions found nothing, since there is no namespace.
inline constexpr char kKeepNothing[] =
    "INSERT INTO memoryd_item_requests (tenant, namespace, request_id, fingerprint, results, "
    "create_us) VALUES ($1, $2, $3, $4, '', $5) "
    "ON CONFLICT (tenant, namespace, request_id) DO NOTHING RETURNING 1";

// By a write that changes nothing: it is acknowledged when what it looks at is replicated.
inline constexpr char kConfirmItemRequests[] =
    "UPDATE memoryd_item_requests SET create_us = create_us "
    "WHERE tenant = $1 AND namespace = $2 AND request_id = ANY($3::text[])";

// What stands under the keys of conditional writes.
inline constexpr Query kReadVersions{
    "read_item_versions",
    "SELECT k.i, s.version FROM (SELECT n.tenant, n.namespace, n.generation, u.key, u.i "
    "FROM unnest($1::text[], $2::bytea[], $3::text[]) WITH ORDINALITY "
    "AS u (tenant, namespace, key, i) "
    "JOIN memoryd_namespaces n ON n.tenant = u.tenant AND n.namespace = u.namespace OFFSET 0) k "
    "JOIN memoryd_items s ON s.tenant = k.tenant AND s.namespace = k.namespace "
    "AND s.generation = k.generation AND s.key = k.key "
    "WHERE s.expire_us = 0 OR s.expire_us > $4::bigint"};

inline constexpr Query kFindTakenRequests{
    "find_taken_item_requests",
    "SELECT k.i FROM unnest($1::text[], $2::bytea[], $3::text[]) WITH ORDINALITY "
    "AS k (tenant, namespace, request_id, i) JOIN memoryd_item_requests s "
    "ON s.tenant = k.tenant AND s.namespace = k.namespace AND s.request_id = k.request_id"};

inline constexpr Query kTouchItems{
    "touch_items",
    "UPDATE memoryd_items s SET expire_us = k.expire_us FROM (SELECT n.tenant, n.namespace, "
    "n.generation, u.key, u.version, u.expire_us FROM unnest($1::text[], $2::bytea[], $3::text[], "
    "$4::bigint[], $5::bigint[]) AS u (tenant, namespace, key, version, expire_us) "
    "JOIN memoryd_namespaces n ON n.tenant = u.tenant AND n.namespace = u.namespace OFFSET 0) k "
    "WHERE s.tenant = k.tenant AND s.namespace = k.namespace AND s.generation = k.generation "
    "AND s.key = k.key AND s.version = k.version AND s.expire_us > 0 "
    "AND s.expire_us < k.expire_us"};

inline constexpr Query kReadItemUsage{
    "read_item_usage",
    "SELECT count(*), coalesce(sum(c.item_count), 0)::bigint, "
    "coalesce(sum(coalesce(c.item_bytes, 0) + 256 + octet_length(s.path) "
    "+ octet_length(s.subject) + octet_length(s.config)), 0)::bigint FROM memoryd_namespaces s "
    "LEFT JOIN memoryd_item_counts c ON c.tenant = s.tenant AND c.namespace = s.namespace "
    "AND c.generation = s.generation WHERE s.tenant = $1"};

// By the rows' places: by their keys PostgreSQL would read the whole table for each step. The time
// is asked for again, since PostgreSQL may go on to what a row has become meanwhile.
inline constexpr Query kPurgeExpiredItems{
    "purge_expired_items",
    "WITH gone AS (DELETE FROM memoryd_items s WHERE s.ctid = ANY (ARRAY(SELECT i.ctid "
    "FROM memoryd_items i WHERE i.expire_us > 0 AND i.expire_us <= $1::bigint "
    "ORDER BY i.expire_us LIMIT $2::bigint)) AND s.expire_us > 0 AND s.expire_us <= $1::bigint "
    "RETURNING s.tenant, s.namespace, s.generation, s.bytes), "
    "counted AS (UPDATE memoryd_item_counts s SET item_count = s.item_count - k.items, "
    "item_bytes = s.item_bytes - k.bytes FROM (SELECT tenant, namespace, generation, "
    "count(*) AS items, sum(bytes)::bigint AS bytes FROM gone GROUP BY 1, 2, 3) k "
    "WHERE s.tenant = k.tenant AND s.namespace = k.namespace AND s.generation = k.generation) "
    "SELECT count(*) FROM gone"};

inline constexpr Query kListItemGarbage{
    "list_item_garbage", "SELECT tenant, namespace, generation FROM memoryd_item_garbage LIMIT 1"};

inline constexpr Query kPurgeGarbageItems{
    "purge_garbage_items",
    "WITH gone AS (DELETE FROM memoryd_items s WHERE s.tenant = $1 AND s.namespace = $2::bytea "
    "AND s.generation = $3::bigint AND s.key <= (SELECT max(d.key) FROM (SELECT i.key "
    "FROM memoryd_items i WHERE i.tenant = $1 AND i.namespace = $2::bytea "
    "AND i.generation = $3::bigint ORDER BY i.key LIMIT $4::bigint) d) RETURNING 1) "
    "SELECT count(*) FROM gone"};

inline constexpr Query kDropItemGarbage{
    "drop_item_garbage",
    "WITH counts AS (DELETE FROM memoryd_item_counts s WHERE s.tenant = $1 "
    "AND s.namespace = $2::bytea AND s.generation = $3::bigint) "
    "DELETE FROM memoryd_item_garbage s WHERE s.tenant = $1 AND s.namespace = $2::bytea "
    "AND s.generation = $3::bigint"};

// By the rows' places, too.
inline constexpr Query kPurgeItemRequests{
    "purge_item_requests",
    "DELETE FROM memoryd_item_requests WHERE ctid = ANY (ARRAY(SELECT ctid "
    "FROM memoryd_item_requests WHERE create_us < $1::bigint AND left(request_id, 1) <> chr(1) "
    "ORDER BY create_us LIMIT $2::bigint)) AND create_us < $1::bigint"};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_ITEM_QUERIES_H_
