#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/items/item.h"
#include "core/items/namespace_path.h"
#include "core/storage/item_batch.h"
#include "core/storage/item_rows.h"
#include "core/storage/item_store.h"
#include "core/storage/sqlite/database.h"
#include "core/storage/sqlite/sqlite_items.h"

namespace memoryd::sqlite {
namespace {

// Those of the value and the vector last, which the first two parameters ask for.
#define MEMORYD_ITEM_COLUMNS                                                                     \
  "key, version, create_us, update_us, expire_us, ttl_us, kind, untrusted, checksum, mime_type," \
  " writer, search, bytes, CASE WHEN ? THEN vector END, CASE WHEN ? THEN coalesce(value,"        \
  " (SELECT v.value FROM memoryd_item_values AS v WHERE v.id = memoryd_items.id)) END"
#define MEMORYD_NAMESPACE_COLUMNS                                                                \
  "generation, version, config_version, item_count, item_bytes, vector_size, ttl_us, create_us," \
  " update_us, subject, config"
constexpr int kNamespaceColumnCount = 11;

constexpr char kSelectItem[] =
    "SELECT " MEMORYD_ITEM_COLUMNS
    " FROM memoryd_items WHERE tenant = ? AND generation = ? AND key = ?";

constexpr char kListByKey[] =
    "SELECT " MEMORYD_ITEM_COLUMNS
    " FROM memoryd_items WHERE tenant = ? AND generation = ? AND key >= ? AND key < ?"
    " ORDER BY key";

constexpr char kListByKeyDescending[] =
    "SELECT " MEMORYD_ITEM_COLUMNS
    " FROM memoryd_items WHERE tenant = ? AND generation = ? AND key >= ? AND key < ?"
    " ORDER BY key DESC";

constexpr char kListByVersion[] =
    "SELECT " MEMORYD_ITEM_COLUMNS
    " FROM memoryd_items WHERE tenant = ? AND generation = ? AND version > ? AND version < ?"
    " ORDER BY version";

constexpr char kListByVersionDescending[] =
    "SELECT " MEMORYD_ITEM_COLUMNS
    " FROM memoryd_items WHERE tenant = ? AND generation = ? AND version > ? AND version < ?"
    " ORDER BY version DESC";

constexpr char kSelectNamespace[] =
    "SELECT " MEMORYD_NAMESPACE_COLUMNS " FROM memoryd_namespaces WHERE tenant = ? AND path = ?";

constexpr char kListNamespaces[] =
    "SELECT " MEMORYD_NAMESPACE_COLUMNS
    ", path FROM memoryd_namespaces WHERE tenant = ? AND path > ? AND path >= ? AND path < ?"
    " ORDER BY path LIMIT ?";

// The condition of the index, by which SQLite sees that it serves.
constexpr char kListSubjectNamespaces[] =
    "SELECT " MEMORYD_NAMESPACE_COLUMNS
    ", path FROM memoryd_namespaces WHERE tenant = ? AND path > ? AND path >= ? AND path < ?"
    " AND subject = ? AND subject <> '' ORDER BY path LIMIT ?";

constexpr char kSelectItemRequest[] =
    "SELECT fingerprint, results, create_us FROM memoryd_item_requests"
    " WHERE tenant = ? AND path = ? AND request_id = ?";

constexpr char kSelectItemUsage[] =
    "SELECT count(*), coalesce(sum(item_count), 0), coalesce(sum(item_bytes + 256"
    " + length(CAST(path AS BLOB)) + length(CAST(subject AS BLOB)) + length(config)), 0)"
    " FROM memoryd_namespaces WHERE tenant = ?";

// Above every character.
constexpr std::string_view kNoEnd = "\xFF";
constexpr std::int64_t kNewest = std::numeric_limits<std::int64_t>::max();

// What of an item is read.
struct Parts {
  bool values = true;
  bool vectors = false;
};

void BindItems(Query& query, Parts parts, const std::string& tenant, std::uint64_t generation) {
  query.Bind(parts.vectors ? 1 : 0)
      .Bind(parts.values ? 1 : 0)
      .BindText(tenant)
      .BindBits(generation);
}

std::int64_t ExpireColumn(const Query& query) { return query.Int(4); }
std::int64_t BytesColumn(const Query& query) { return query.Int(12); }

absl::StatusOr<Item> ReadItem(const Query& query, Parts parts) {
  Item item;
  item.key = query.String(0);
  item.version = query.Int(1);
  item.create_us = query.Int(2);
  item.update_us = query.Int(3);
  item.expire_us = query.Int(4);
  item.ttl_us = query.Int(5);
  item.content.kind = static_cast<ItemValueKind>(query.Int(6));
  item.content.untrusted = query.Int(7) != 0;
  item.content.mime_type = query.String(9);
  item.content.writer = query.String(10);
  if (!query.IsNull(11)) item.content.search = query.String(11);
  if (parts.vectors && !DecodeVector(query.Bytes(13), item.content.vector)) return UnreadableRow();
  if (!parts.values) return item;
  if (query.IsNull(14)) return UnreadableRow();
  item.content.value = query.String(14);
  MEMORYD_RETURN_IF_ERROR(CheckItemChecksum(item.key, item.content, query.Int(8)));
  return item;
}

NamespaceRow ReadNamespace(const Query& query) {
  NamespaceRow row;
  row.generation = query.Bits(0);
  row.version = query.Int(1);
  row.config_version = query.Int(2);
  row.item_count = query.Int(3);
  row.item_bytes = query.Int(4);
  row.vector_size = query.Int(5);
  row.ttl_us = query.Int(6);
  row.create_us = query.Int(7);
  row.update_us = query.Int(8);
  row.subject = query.String(9);
  row.config = query.String(10);
  return row;
}

const char* ListStatement(ItemListOrder order) {
  switch (order) {
    case ItemListOrder::kKey:
      return kListByKey;
    case ItemListOrder::kKeyDescending:
      return kListByKeyDescending;
    case ItemListOrder::kOldestFirst:
      return kListByVersion;
    case ItemListOrder::kNewestFirst:
      return kListByVersionDescending;
  }
  return kListByKey;
}

bool IsByKey(ItemListOrder order) {
  return order == ItemListOrder::kKey || order == ItemListOrder::kKeyDescending;
}

// The bounds of keys, [begin, end), that the page may have; they live as long as the query.
struct KeyBounds {
  std::string begin;
  std::string end;
};

KeyBounds BoundsOf(const ItemRange& range) {
  KeyBounds bounds{range.begin_key, range.end_key.empty() ? std::string(kNoEnd) : range.end_key};
  if (range.after_key.empty()) return bounds;
  if (range.order == ItemListOrder::kKeyDescending) {
    bounds.end = std::min(bounds.end, range.after_key);
  } else {
    // The least text behind it: no key has the character U+0000.
    bounds.begin = std::max(bounds.begin, range.after_key + '\0');
  }
  return bounds;
}

void BindVersions(Query& query, const ItemRange& range) {
  const bool newest_first = range.order == ItemListOrder::kNewestFirst;
  query.Bind(newest_first ? 0 : range.after_version);
  query.Bind(newest_first && range.after_version > 0 ? range.after_version : kNewest);
}

bool IsInRange(const ItemRange& range, std::string_view key) {
  return key >= range.begin_key && (range.end_key.empty() || key < range.end_key);
}

// Reads on until the page is full.
absl::StatusOr<ItemPage> ReadPage(Query& query, const ItemRange& range, std::int64_t now_us) {
  const Parts parts{range.with_values, range.with_vectors};
  ItemPage page;
  std::int64_t bytes = 0;
  for (;;) {
    MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
    if (!found) return page;
    if (!IsLive(ExpireColumn(query), now_us) || !IsInRange(range, query.Bytes(0))) continue;
    if (parts.values || parts.vectors) bytes += BytesColumn(query);
    if (std::ssize(page.items) >= range.max_items ||
        (!page.items.empty() && bytes > range.max_bytes)) {
      page.more = true;
      return page;
    }
    MEMORYD_ASSIGN_OR_RETURN(Item item, ReadItem(query, parts));
    page.items.push_back(std::move(item));
  }
}

}  // namespace

absl::StatusOr<std::optional<NamespaceRow>> FindNamespace(Database& db, const NamespaceKey& key) {
  Query query = db.Prepare(kSelectNamespace);
  query.BindText(key.tenant).BindText(key.path.stored());
  MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
  if (!found) return std::nullopt;
  return ReadNamespace(query);
}

absl::StatusOr<std::vector<std::optional<NamespaceRow>>> FindNamespaces(
    Database& db, std::span<const NamespaceKey> keys) {
  const ReadTransaction transaction(db);
  MEMORYD_RETURN_IF_ERROR(transaction.status());
  std::vector<std::optional<NamespaceRow>> rows;
  rows.reserve(keys.size());
  for (const NamespaceKey& key : keys) {
    MEMORYD_ASSIGN_OR_RETURN(std::optional<NamespaceRow> row, FindNamespace(db, key));
    rows.push_back(std::move(row));
  }
  return rows;
}

absl::StatusOr<std::vector<std::optional<Item>>> ReadItems(Database& db,
                                                           std::span<const ItemKey> keys,
                                                           std::int64_t now_us, bool with_vectors,
                                                           std::int64_t max_bytes) {
  const ReadTransaction transaction(db);
  MEMORYD_RETURN_IF_ERROR(transaction.status());
  const Parts parts{true, with_vectors};
  std::vector<std::optional<Item>> items(keys.size());
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    MEMORYD_ASSIGN_OR_RETURN(const std::optional<NamespaceRow> row,
                             FindNamespace(db, keys[i].name_space));
    if (!row.has_value()) continue;
    Query query = db.Prepare(kSelectItem);
    BindItems(query, parts, keys[i].name_space.tenant, row->generation);
    query.BindText(keys[i].key);
    MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
    if (!found || !IsLive(ExpireColumn(query), now_us)) continue;
    bytes += BytesColumn(query);
    if (bytes > max_bytes) return ReplyTooLarge();
    MEMORYD_ASSIGN_OR_RETURN(items[i], ReadItem(query, parts));
  }
  return items;
}

absl::StatusOr<ItemPage> ListItems(Database& db, const NamespaceKey& key, std::uint64_t generation,
                                   const ItemRange& range, std::int64_t now_us) {
  const ReadTransaction transaction(db);
  MEMORYD_RETURN_IF_ERROR(transaction.status());
  MEMORYD_ASSIGN_OR_RETURN(const std::optional<NamespaceRow> row, FindNamespace(db, key));
  if (!row.has_value() || (generation != 0 && row->generation != generation)) return ItemPage();
  const KeyBounds bounds = BoundsOf(range);
  Query query = db.Prepare(ListStatement(range.order));
  BindItems(query, {range.with_values, range.with_vectors}, key.tenant, row->generation);
  if (IsByKey(range.order)) {
    query.BindText(bounds.begin).BindText(bounds.end);
  } else {
    BindVersions(query, range);
  }
  MEMORYD_ASSIGN_OR_RETURN(ItemPage page, ReadPage(query, range, now_us));
  if (!page.items.empty()) page.generation = row->generation;
  return page;
}

absl::StatusOr<std::vector<ListedNamespace>> ListNamespaces(Database& db, std::string_view tenant,
                                                            const NamespacePath& prefix,
                                                            std::string_view after,
                                                            std::string_view subject,
                                                            std::int64_t max_namespaces) {
  const std::string end = prefix.StoredEnd();
  Query query = db.Prepare(subject.empty() ? kListNamespaces : kListSubjectNamespaces);
  query.BindText(tenant).BindText(after).BindText(prefix.stored());
  query.BindText(end.empty() ? kNoEnd : std::string_view(end));
  if (!subject.empty()) query.BindText(subject);
  query.Bind(std::max<std::int64_t>(0, max_namespaces));
  std::vector<ListedNamespace> listed;
  for (;;) {
    MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
    if (!found) return listed;
    MEMORYD_ASSIGN_OR_RETURN(NamespacePath path,
                             NamespacePath::FromStored(query.Bytes(kNamespaceColumnCount)));
    listed.push_back({std::move(path), ReadNamespace(query)});
  }
}

absl::StatusOr<std::vector<std::optional<ItemRequestRecord>>> FindItemRequests(
    Database& db, const NamespaceKey& key, std::span<const std::string> request_ids) {
  std::vector<std::optional<ItemRequestRecord>> records(request_ids.size());
  for (std::size_t i = 0; i < request_ids.size(); ++i) {
    Query query = db.Prepare(kSelectItemRequest);
    query.BindText(key.tenant).BindText(key.path.stored()).BindText(request_ids[i]);
    MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
    if (!found) continue;
    ItemRequestRecord& record = records[i].emplace();
    record.fingerprint = query.String(0);
    record.create_us = query.Int(2);
    if (!DecodeItemResults(query.Bytes(1), record.writes)) return UnreadableRow();
  }
  return records;
}

absl::StatusOr<ItemUsage> ReadItemUsage(Database& db, std::string_view tenant) {
  Query query = db.Prepare(kSelectItemUsage);
  query.BindText(tenant);
  MEMORYD_RETURN_IF_ERROR(query.Next().status());
  return ItemUsage{query.Int(0), query.Int(1), query.Int(2)};
}

}  // namespace memoryd::sqlite
