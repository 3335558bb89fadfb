#include "core/storage/sqlite/sqlite_item_store.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/items/item.h"
#include "core/items/namespace_path.h"
#include "core/storage/item_batch.h"
#include "core/storage/item_store.h"
#include "core/storage/sqlite/database_pool.h"
#include "core/storage/sqlite/sqlite_items.h"

namespace memoryd::sqlite {

std::vector<ItemBatchResult> SqliteItemStore::WriteItems(std::span<const ItemBatch> batches,
                                                         std::int64_t now_us) {
  const auto db = connections_.TakeWriter();
  if (!db.ok()) {
    ItemBatchResult failed;
    failed.status = db.status();
    return std::vector<ItemBatchResult>(batches.size(), failed);
  }
  std::vector<ItemBatchResult> results = sqlite::WriteItems(**db, batches, now_us);
  if (const absl::Status status = connections_.StatusAfterCommit(**db); !status.ok()) {
    for (ItemBatchResult& result : results) {
      if (result.outcome != ItemBatchOutcome::kWritten) continue;
      result = ItemBatchResult();
      result.outcome = ItemBatchOutcome::kUnknown;
      result.status = status;
    }
  }
  return results;
}

absl::StatusOr<std::vector<std::optional<Item>>> SqliteItemStore::ReadItems(
    std::span<const ItemKey> keys, std::int64_t now_us, bool with_vectors, std::int64_t max_bytes) {
  MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, connections_.TakeReader());
  return sqlite::ReadItems(*db, keys, now_us, with_vectors, max_bytes);
}

absl::StatusOr<ItemPage> SqliteItemStore::ListItems(const NamespaceKey& key,
                                                    std::uint64_t generation,
                                                    const ItemRange& range, std::int64_t now_us) {
  MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, connections_.TakeReader());
  return sqlite::ListItems(*db, key, generation, range, now_us);
}

absl::StatusOr<std::vector<std::optional<NamespaceRow>>> SqliteItemStore::FindNamespaces(
    std::span<const NamespaceKey> keys) {
  MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, connections_.TakeReader());
  return sqlite::FindNamespaces(*db, keys);
}

absl::StatusOr<std::vector<ListedNamespace>> SqliteItemStore::ListNamespaces(
    std::string_view tenant, const NamespacePath& prefix, std::string_view after,
    std::string_view subject, std::int64_t max_namespaces) {
  MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, connections_.TakeReader());
  return sqlite::ListNamespaces(*db, tenant, prefix, after, subject, max_namespaces);
}

absl::StatusOr<bool> SqliteItemStore::WriteNamespace(const NamespaceKey& key,
                                                     const NamespaceChange& change,
                                                     std::int64_t now_us) {
  MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, connections_.TakeWriter());
  absl::StatusOr<bool> written = sqlite::WriteNamespace(*db, key, change, now_us);
  MEMORYD_RETURN_IF_ERROR(connections_.StatusAfterCommit(*db));
  return written;
}

absl::StatusOr<DeletedNamespace> SqliteItemStore::DeleteNamespace(const NamespaceKey& key,
                                                                  const NamespaceDeletion& deletion,
                                                                  std::int64_t now_us) {
  MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, connections_.TakeWriter());
  absl::StatusOr<DeletedNamespace> deleted = sqlite::DeleteNamespace(*db, key, deletion, now_us);
  MEMORYD_RETURN_IF_ERROR(connections_.StatusAfterCommit(*db));
  return deleted;
}

absl::StatusOr<std::optional<StagedNamespace>> SqliteItemStore::StageNamespace(
    const NamespaceKey& key, std::int64_t now_us) {
  MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, connections_.TakeWriter());
  return sqlite::StageNamespace(*db, key, now_us);
}

absl::StatusOr<bool> SqliteItemStore::StageItems(const StagedNamespace& staged,
                                                 std::span<const Item> items, std::int64_t now_us) {
  MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, connections_.TakeWriter());
  return sqlite::StageItems(*db, staged, items, now_us);
}

absl::StatusOr<bool> SqliteItemStore::PublishNamespace(const StagedNamespace& staged,
                                                       const NamespaceRow& row) {
  MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, connections_.TakeWriter());
  absl::StatusOr<bool> published = sqlite::PublishNamespace(*db, staged, row);
  MEMORYD_RETURN_IF_ERROR(connections_.StatusAfterCommit(*db));
  return published;
}

absl::Status SqliteItemStore::DropNamespace(const StagedNamespace& staged) {
  MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, connections_.TakeWriter());
  return sqlite::DropNamespace(*db, staged);
}

absl::StatusOr<std::vector<std::optional<ItemRequestRecord>>> SqliteItemStore::FindItemRequests(
    const NamespaceKey& key, std::span<const std::string> request_ids) {
  MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, connections_.TakeReader());
  return sqlite::FindItemRequests(*db, key, request_ids);
}

absl::Status SqliteItemStore::TouchItems(std::span<const ItemTouch> touches) {
  if (touches.empty()) return absl::OkStatus();
  MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, connections_.TakeWriter());
  return sqlite::TouchItems(*db, touches);
}

absl::StatusOr<ItemUsage> SqliteItemStore::ReadItemUsage(std::string_view tenant) {
  MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, connections_.TakeReader());
  return sqlite::ReadItemUsage(*db, tenant);
}

absl::StatusOr<std::int64_t> SqliteItemStore::PurgeItems(std::int64_t now_us, std::int64_t keep_us,
                                                         std::int64_t max_rows) {
  std::int64_t deleted = 0;
  while (deleted < max_rows) {
    // Taken again for each step, so that commits get their turn between two.
    MEMORYD_ASSIGN_OR_RETURN(const DatabasePool::Lease db, connections_.TakeWriter());
    MEMORYD_ASSIGN_OR_RETURN(const std::int64_t rows,
                             sqlite::PurgeItemsStep(*db, now_us, keep_us, max_rows - deleted));
    if (rows == 0) break;
    deleted += rows;
  }
  return deleted;
}

}  // namespace memoryd::sqlite
