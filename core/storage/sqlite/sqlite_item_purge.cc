#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/items/namespace_path.h"
#include "core/storage/item_rows.h"
#include "core/storage/item_store.h"
#include "core/storage/sqlite/database.h"
#include "core/storage/sqlite/sqlite_items.h"

namespace memoryd::sqlite {
namespace {

constexpr std::int64_t kRowsPerStep = 200;
// What is deleted is overwritten (secure_delete), so bytes bound a step too.
constexpr std::int64_t kBytesPerStep = 4 << 20;

constexpr char kDeleteNamespace[] = "DELETE FROM memoryd_namespaces WHERE tenant = ? AND path = ?";

constexpr char kInsertItemGarbage[] =
    "INSERT INTO memoryd_item_garbage (tenant, generation) VALUES (?, ?)";

constexpr char kForgetItemRequests[] =
    "UPDATE memoryd_item_requests SET fingerprint = x'', results = '' WHERE tenant = ? AND path = "
    "? AND request_id <> ''";

constexpr char kKeepDeletion[] =
    "REPLACE INTO memoryd_item_requests (tenant, path, request_id, fingerprint, results, create_us)"
    " VALUES (?, ?, '', ?, ?, ?)";

constexpr char kSelectDeletion[] =
    "SELECT fingerprint, results, create_us FROM memoryd_item_requests"
    " WHERE tenant = ? AND path = ? AND request_id = ''";

constexpr char kTouchItem[] =
    "UPDATE memoryd_items SET expire_us = ? WHERE tenant = ? AND generation = ? AND key = ?"
    " AND version = ? AND expire_us > 0 AND expire_us < ?";

constexpr char kSelectExpired[] =
    "SELECT tenant, generation, id, bytes FROM memoryd_items WHERE expire_us > 0 AND expire_us <= ?"
    " ORDER BY expire_us LIMIT ?";

constexpr char kSelectItemGarbage[] = "SELECT tenant, generation FROM memoryd_item_garbage LIMIT 1";

constexpr char kSelectGarbageItems[] =
    "SELECT tenant, generation, id, bytes FROM memoryd_items"
    " WHERE tenant = ? AND generation = ? LIMIT ?";

constexpr char kDeleteItemById[] = "DELETE FROM memoryd_items WHERE id = ?";

// Nothing where the namespace was deleted meanwhile.
constexpr char kCountDown[] =
    "UPDATE memoryd_namespaces SET item_count = item_count - 1, item_bytes = item_bytes - ?"
    " WHERE tenant = ? AND generation = ?";

constexpr char kDeleteItemGarbage[] =
    "DELETE FROM memoryd_item_garbage WHERE tenant = ? AND generation = ?";

constexpr char kDeleteItemRequests[] =
    "DELETE FROM memoryd_item_requests WHERE (tenant, path, request_id) IN"
    " (SELECT tenant, path, request_id FROM memoryd_item_requests"
    "  WHERE create_us < ? AND substr(request_id, 1, 1) <> char(1) ORDER BY create_us LIMIT ?)";

// Nothing but what is staged has a time as small.
constexpr char kSelectOldStaging[] =
    "SELECT tenant, path, request_id FROM memoryd_item_requests"
    " WHERE create_us < ? AND substr(request_id, 1, 1) = char(1) ORDER BY create_us LIMIT 1";

constexpr char kDeleteOldStaging[] =
    "DELETE FROM memoryd_item_requests WHERE tenant = ? AND path = ? AND request_id = ?";

struct PurgedItem {
  std::string tenant;
  std::uint64_t generation = 0;
  std::int64_t id = 0;
  std::int64_t bytes = 0;
};

// The rows of `query`, as many as a step takes.
absl::StatusOr<std::vector<PurgedItem>> Gather(Query& query) {
  std::vector<PurgedItem> items;
  for (std::int64_t bytes = 0; bytes < kBytesPerStep;) {
    MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
    if (!found) break;
    items.push_back({query.String(0), query.Bits(1), query.Int(2), query.Int(3)});
    bytes += items.back().bytes;
  }
  return items;
}

absl::Status DeleteItems(Database& db, const std::vector<PurgedItem>& items, bool count_down) {
  for (const PurgedItem& item : items) {
    Query query = db.Prepare(kDeleteItemById);
    MEMORYD_RETURN_IF_ERROR(ToStatus(query.Bind(item.id).Run()));
    if (!count_down) continue;
    Query count = db.Prepare(kCountDown);
    count.Bind(item.bytes).BindText(item.tenant).BindBits(item.generation);
    MEMORYD_RETURN_IF_ERROR(ToStatus(count.Run()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::int64_t> PurgeExpired(Database& db, std::int64_t now_us, std::int64_t rows) {
  std::vector<PurgedItem> items;
  {
    Query query = db.Prepare(kSelectExpired);
    query.Bind(now_us).Bind(rows);
    MEMORYD_ASSIGN_OR_RETURN(items, Gather(query));
  }
  MEMORYD_RETURN_IF_ERROR(DeleteItems(db, items, /*count_down=*/true));
  return std::ssize(items);
}

absl::StatusOr<std::int64_t> PurgeGarbage(Database& db, std::int64_t rows) {
  PurgedItem garbage;
  {
    Query query = db.Prepare(kSelectItemGarbage);
    MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
    if (!found) return 0;
    garbage.tenant = query.String(0);
    garbage.generation = query.Bits(1);
  }
  std::vector<PurgedItem> items;
  {
    Query query = db.Prepare(kSelectGarbageItems);
    query.BindText(garbage.tenant).BindBits(garbage.generation).Bind(rows);
    MEMORYD_ASSIGN_OR_RETURN(items, Gather(query));
  }
  MEMORYD_RETURN_IF_ERROR(DeleteItems(db, items, /*count_down=*/false));
  if (!items.empty()) return std::ssize(items);
  Query query = db.Prepare(kDeleteItemGarbage);
  query.BindText(garbage.tenant).BindBits(garbage.generation);
  MEMORYD_RETURN_IF_ERROR(ToStatus(query.Run()));
  return 1;
}

// Gives up what nobody stages any more.
absl::StatusOr<std::int64_t> PurgeStaging(Database& db, std::int64_t before_us) {
  std::string tenant, path, id;
  {
    Query query = db.Prepare(kSelectOldStaging);
    query.Bind(StagingTime(before_us));
    MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
    if (!found) return 0;
    tenant = query.String(0);
    path = std::string(query.Bytes(1));
    id = query.String(2);
  }
  Query remove = db.Prepare(kDeleteOldStaging);
  remove.BindText(tenant).BindBlob(path).BindText(id);
  MEMORYD_RETURN_IF_ERROR(ToStatus(remove.Run()));
  std::int64_t generation = 0;
  std::from_chars(id.data() + 1, id.data() + id.size(), generation);
  Query garbage = db.Prepare(kInsertItemGarbage);
  garbage.BindText(tenant).Bind(generation);
  MEMORYD_RETURN_IF_ERROR(ToStatus(garbage.Run()));
  return 1;
}

absl::StatusOr<std::int64_t> PurgeRequests(Database& db, std::int64_t before_us,
                                           std::int64_t rows) {
  Query query = db.Prepare(kDeleteItemRequests);
  MEMORYD_RETURN_IF_ERROR(ToStatus(query.Bind(before_us).Bind(rows).Run()));
  return db.changes();
}

absl::StatusOr<std::int64_t> PurgeSome(Database& db, std::int64_t now_us, std::int64_t keep_us,
                                       std::int64_t rows) {
  MEMORYD_ASSIGN_OR_RETURN(const std::int64_t expired, PurgeExpired(db, now_us, rows));
  if (expired > 0) return expired;
  MEMORYD_ASSIGN_OR_RETURN(const std::int64_t staged, PurgeStaging(db, now_us - kStagedUs));
  if (staged > 0) return staged;
  MEMORYD_ASSIGN_OR_RETURN(const std::int64_t garbage, PurgeGarbage(db, rows));
  if (garbage > 0) return garbage;
  return PurgeRequests(db, now_us - keep_us, rows);
}

// See kDeletionId.
absl::Status KeepDeletion(Database& db, const NamespaceKey& key, std::int64_t version, bool erased,
                          std::int64_t now_us) {
  if (!erased && version <= DeletionKeptAbove(now_us)) return absl::OkStatus();
  MEMORYD_ASSIGN_OR_RETURN(const Deletion before, FindDeletion(db, key));
  const std::string text = std::to_string(std::max(version, before.version));
  Query query = db.Prepare(kKeepDeletion);
  const std::string digest = NamespaceDigest(key.path);
  query.BindText(key.tenant).BindBlob(digest);
  query.BindBlob(erased || before.erased_us > 0 ? kErasedMark : std::string_view());
  query.BindText(text).Bind(std::max(now_us, before.erased_us));
  return ToStatus(query.Run());
}

}  // namespace

absl::StatusOr<Deletion> FindDeletion(Database& db, const NamespaceKey& key) {
  Query query = db.Prepare(kSelectDeletion);
  const std::string digest = NamespaceDigest(key.path);
  query.BindText(key.tenant).BindBlob(digest);
  MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
  Deletion deletion;
  if (!found) return deletion;
  const std::string version = query.String(1);
  std::from_chars(version.data(), version.data() + version.size(), deletion.version);
  if (query.Bytes(0) == kErasedMark) deletion.erased_us = query.Int(2);
  return deletion;
}

absl::StatusOr<DeletedNamespace> DeleteNamespace(Database& db, const NamespaceKey& key,
                                                 const NamespaceDeletion& deletion,
                                                 std::int64_t now_us) {
  return InWriteTransaction(db, [&]() -> absl::StatusOr<DeletedNamespace> {
    MEMORYD_ASSIGN_OR_RETURN(const std::optional<NamespaceRow> row, FindNamespace(db, key));
    if (row.has_value() && !deletion.subject.empty() && row->subject != deletion.subject) {
      return DeletedNamespace{.of_other = true};
    }
    if (deletion.forget) {
      Query query = db.Prepare(kForgetItemRequests);
      query.BindText(key.tenant).BindText(key.path.stored());
      MEMORYD_RETURN_IF_ERROR(ToStatus(query.Run()));
    }
    if (!row.has_value()) return DeletedNamespace();
    Query query = db.Prepare(kDeleteNamespace);
    query.BindText(key.tenant).BindText(key.path.stored());
    MEMORYD_RETURN_IF_ERROR(ToStatus(query.Run()));
    Query garbage = db.Prepare(kInsertItemGarbage);
    garbage.BindText(key.tenant).BindBits(row->generation);
    MEMORYD_RETURN_IF_ERROR(ToStatus(garbage.Run()));
    MEMORYD_RETURN_IF_ERROR(KeepDeletion(db, key, row->version, deletion.forget, now_us));
    return DeletedNamespace{
        .existed = true, .item_count = row->item_count, .item_bytes = row->item_bytes};
  });
}

absl::Status TouchItems(Database& db, std::span<const ItemTouch> touches) {
  return InWriteTransaction(db, [&]() -> absl::Status {
    for (const ItemTouch& touch : touches) {
      MEMORYD_ASSIGN_OR_RETURN(const std::optional<NamespaceRow> row,
                               FindNamespace(db, touch.key.name_space));
      if (!row.has_value()) continue;
      Query query = db.Prepare(kTouchItem);
      query.Bind(touch.expire_us)
          .BindText(touch.key.name_space.tenant)
          .BindBits(row->generation)
          .BindText(touch.key.key)
          .Bind(touch.version)
          .Bind(touch.expire_us);
      MEMORYD_RETURN_IF_ERROR(ToStatus(query.Run()));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::int64_t> PurgeItemsStep(Database& db, std::int64_t now_us, std::int64_t keep_us,
                                            std::int64_t max_rows) {
  const std::int64_t rows = std::min(max_rows, kRowsPerStep);
  return InWriteTransaction(db, [&] { return PurgeSome(db, now_us, keep_us, rows); });
}

}  // namespace memoryd::sqlite
