// A store of items whose calls are counted and timed.
#ifndef MEMORYD_CORE_STORAGE_OBSERVED_ITEMS_H_
#define MEMORYD_CORE_STORAGE_OBSERVED_ITEMS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/storage/item_store.h"
#include "core/storage/observed_store.h"

namespace memoryd {

// Passes every call on to a store, which must outlive it. Any thread may call any method.
class ObservedItems final : public ItemStore {
 public:
  // Told of each call when it has ended: how long it took, and its error. A write of batches has
  // that of the last one that failed, or may or may not be stored.
  using OnCall =
      std::function<void(StoreOperation operation, std::chrono::steady_clock::duration took,
                         const absl::Status& status)>;

  ObservedItems(ItemStore* store, OnCall on_call) : store_(*store), on_call_(std::move(on_call)) {}

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
  // What `call` returns, an absl::Status or StatusOr.
  template <typename Call>
  auto Timed(StoreOperation operation, const Call& call);

  ItemStore& store_;
  const OnCall on_call_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_OBSERVED_ITEMS_H_
