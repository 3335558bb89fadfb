// The items of a PostgreSQL store, over its connections.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_POSTGRES_ITEM_STORE_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_POSTGRES_ITEM_STORE_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/storage/item_store.h"
#include "core/storage/postgres/batch_writer.h"

namespace memoryd {

class PostgresItemStore final : public ItemStore {
 public:
  // What is referred to outlives it. `timeout` bounds each call.
  PostgresItemStore(BatchPool& writers, QueryPool& readers, PoolDropper& dropper,
                    std::chrono::milliseconds timeout)
      : writers_(writers), readers_(readers), dropper_(dropper), timeout_(timeout) {}

  std::vector<ItemBatchResult> WriteItems(std::span<const ItemBatch> batches,
                                          std::int64_t now_us) override;
  absl::StatusOr<std::vector<std::optional<Item>>> ReadItems(std::span<const ItemKey> keys,
                                                             std::int64_t now_us, bool with_vectors,
                                                             std::int64_t max_bytes) override;
  absl::StatusOr<ItemPage> ListItems(const NamespaceKey& key, std::uint64_t generation,
                                     const ItemRange& range, std::int64_t now_us) override;
  absl::StatusOr<std::vector<std::optional<NamespaceRow>>> FindNamespaces(
      std::span<const NamespaceKey> keys) override;
  absl::StatusOr<std::vector<ListedNamespace>> ListNamespaces(std::string_view tenant,
                                                              const NamespacePath& prefix,
                                                              std::string_view after,
                                                              std::string_view subject,
                                                              std::int64_t max_namespaces) override;
  absl::StatusOr<bool> WriteNamespace(const NamespaceKey& key, const NamespaceChange& change,
                                      std::int64_t now_us) override;
  absl::StatusOr<DeletedNamespace> DeleteNamespace(const NamespaceKey& key,
                                                   const NamespaceDeletion& deletion,
                                                   std::int64_t now_us) override;
  absl::StatusOr<std::optional<StagedNamespace>> StageNamespace(const NamespaceKey& key,
                                                                std::int64_t now_us) override;
  absl::StatusOr<bool> StageItems(const StagedNamespace& staged, std::span<const Item> items,
                                  std::int64_t now_us) override;
  absl::StatusOr<bool> PublishNamespace(const StagedNamespace& staged,
                                        const NamespaceRow& row) override;
  absl::Status DropNamespace(const StagedNamespace& staged) override;
  absl::StatusOr<std::vector<std::optional<ItemRequestRecord>>> FindItemRequests(
      const NamespaceKey& key, std::span<const std::string> request_ids) override;
  absl::Status TouchItems(std::span<const ItemTouch> touches) override;
  absl::StatusOr<ItemUsage> ReadItemUsage(std::string_view tenant) override;
  absl::StatusOr<std::int64_t> PurgeItems(std::int64_t now_us, std::int64_t keep_us,
                                          std::int64_t max_rows) override;

 private:
  CommitContext Context();
  absl::StatusOr<QueryResult> Run(const Query& query, const std::vector<std::string>& parameters);
  // How many rows of garbage went.
  absl::StatusOr<std::int64_t> PurgeGarbage(std::int64_t max_rows);

  BatchPool& writers_;
  QueryPool& readers_;
  PoolDropper& dropper_;
  const std::chrono::milliseconds timeout_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_POSTGRES_ITEM_STORE_H_
