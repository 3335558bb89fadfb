// Namespaces and items: the calls of item_store.h over one connection.
#ifndef MEMORYD_CORE_STORAGE_SQLITE_SQLITE_ITEMS_H_
#define MEMORYD_CORE_STORAGE_SQLITE_SQLITE_ITEMS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/storage/item_store.h"
#include "core/storage/sqlite/database.h"

namespace memoryd::sqlite {

// ItemStore::WriteItems in one transaction. An error of the file (full, I/O) fails all batches.
std::vector<ItemBatchResult> WriteItems(Database& db, std::span<const ItemBatch> batches,
                                        std::int64_t now_us);

absl::StatusOr<bool> WriteNamespace(Database& db, const NamespaceKey& key,
                                    const NamespaceChange& change, std::int64_t now_us);
absl::StatusOr<DeletedNamespace> DeleteNamespace(Database& db, const NamespaceKey& key,
                                                 const NamespaceDeletion& deletion,
                                                 std::int64_t now_us);
absl::Status TouchItems(Database& db, std::span<const ItemTouch> touches);

// See ItemStore, each in one transaction.
absl::StatusOr<std::optional<StagedNamespace>> StageNamespace(Database& db, const NamespaceKey& key,
                                                              std::int64_t now_us);
absl::StatusOr<bool> StageItems(Database& db, const StagedNamespace& staged,
                                std::span<const Item> items, std::int64_t now_us);
absl::StatusOr<bool> PublishNamespace(Database& db, const StagedNamespace& staged,
                                      const NamespaceRow& row);
absl::Status DropNamespace(Database& db, const StagedNamespace& staged);

// One small transaction of ItemStore::PurgeItems; 0 when nothing is left.
absl::StatusOr<std::int64_t> PurgeItemsStep(Database& db, std::int64_t now_us, std::int64_t keep_us,
                                            std::int64_t max_rows);

absl::StatusOr<std::vector<std::optional<Item>>> ReadItems(Database& db,
                                                           std::span<const ItemKey> keys,
                                                           std::int64_t now_us, bool with_vectors,
                                                           std::int64_t max_bytes);
absl::StatusOr<ItemPage> ListItems(Database& db, const NamespaceKey& key, std::uint64_t generation,
                                   const ItemRange& range, std::int64_t now_us);
// In the connection's transaction, if it has one.
absl::StatusOr<std::optional<NamespaceRow>> FindNamespace(Database& db, const NamespaceKey& key);
absl::StatusOr<std::vector<std::optional<NamespaceRow>>> FindNamespaces(
    Database& db, std::span<const NamespaceKey> keys);
absl::StatusOr<std::vector<ListedNamespace>> ListNamespaces(Database& db, std::string_view tenant,
                                                            const NamespacePath& prefix,
                                                            std::string_view after,
                                                            std::string_view subject,
                                                            std::int64_t max_namespaces);
// What is kept of a deleted namespace, see kDeletionId; in the connection's transaction.
struct Deletion {
  std::int64_t version = 0;    // 0: nothing is kept.
  std::int64_t erased_us = 0;  // 0: it was not erased.
};
absl::StatusOr<Deletion> FindDeletion(Database& db, const NamespaceKey& key);

// Where an item's row stands; what it points to outlives it.
struct ItemPlace {
  std::string_view tenant;
  std::uint64_t generation = 0;
  std::string_view key;
};
// What stands there before a write.
struct OldItem {
  std::int64_t id = 0;
  std::int64_t version = 0;
  std::int64_t create_us = 0;
  std::int64_t expire_us = 0;
  std::int64_t bytes = 0;
  bool is_apart = false;  // Its value stands in memoryd_item_values.
};
// What is to stand there.
struct NewItem {
  std::int64_t version = 0;
  std::int64_t create_us = 0;
  std::int64_t update_us = 0;
  std::int64_t expire_us = 0;
  std::int64_t ttl_us = 0;
  const ItemContent* content = nullptr;
};
absl::StatusOr<std::optional<OldItem>> FindItem(Database& db, const ItemPlace& place);
// A result code. In the connection's transaction.
int StoreItem(Database& db, const ItemPlace& place, const NewItem& item,
              const std::optional<OldItem>& old);
// Makes the row of a namespace.
int InsertNamespace(Database& db, const NamespaceKey& key, const NamespaceRow& row,
                    std::uint64_t tag);
absl::StatusOr<std::vector<std::optional<ItemRequestRecord>>> FindItemRequests(
    Database& db, const NamespaceKey& key, std::span<const std::string> request_ids);
absl::StatusOr<ItemUsage> ReadItemUsage(Database& db, std::string_view tenant);

}  // namespace memoryd::sqlite

#endif  // MEMORYD_CORE_STORAGE_SQLITE_SQLITE_ITEMS_H_
