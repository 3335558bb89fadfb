#include "core/storage/observed_items.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/items/item.h"
#include "core/items/namespace_path.h"
#include "core/storage/item_batch.h"
#include "core/storage/item_store.h"
#include "core/storage/observed_store.h"

namespace memoryd {
namespace {

using Clock = std::chrono::steady_clock;

const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

}  // namespace

template <typename Call>
auto ObservedItems::Timed(StoreOperation operation, const Call& call) {
  const auto begin = Clock::now();
  auto result = call();
  on_call_(operation, Clock::now() - begin, StatusOf(result));
  return result;
}

std::vector<ItemBatchResult> ObservedItems::WriteItems(std::span<const ItemBatch> batches,
                                                       std::int64_t now_us) {
  const auto begin = Clock::now();
  std::vector<ItemBatchResult> results = store_.WriteItems(batches, now_us);
  const auto took = Clock::now() - begin;
  absl::Status failed;
  for (const ItemBatchResult& result : results) {
    // OK where it was written, and where a condition did not hold.
    if (!result.status.ok()) failed = result.status;
  }
  on_call_(StoreOperation::kWriteItems, took, failed);
  return results;
}

absl::StatusOr<std::vector<std::optional<Item>>> ObservedItems::ReadItems(
    std::span<const ItemKey> keys, std::int64_t now_us, bool with_vectors, std::int64_t max_bytes) {
  return Timed(StoreOperation::kReadItems,
               [&] { return store_.ReadItems(keys, now_us, with_vectors, max_bytes); });
}

absl::StatusOr<ItemPage> ObservedItems::ListItems(const NamespaceKey& key, std::uint64_t generation,
                                                  const ItemRange& range, std::int64_t now_us) {
  return Timed(StoreOperation::kListItems,
               [&] { return store_.ListItems(key, generation, range, now_us); });
}

absl::StatusOr<std::vector<std::optional<NamespaceRow>>> ObservedItems::FindNamespaces(
    std::span<const NamespaceKey> keys) {
  return Timed(StoreOperation::kFindNamespaces, [&] { return store_.FindNamespaces(keys); });
}

absl::StatusOr<std::vector<ListedNamespace>> ObservedItems::ListNamespaces(
    std::string_view tenant, const NamespacePath& prefix, std::string_view after,
    std::string_view subject, std::int64_t max_namespaces) {
  return Timed(StoreOperation::kListNamespaces, [&] {
    return store_.ListNamespaces(tenant, prefix, after, subject, max_namespaces);
  });
}

absl::StatusOr<bool> ObservedItems::WriteNamespace(const NamespaceKey& key,
                                                   const NamespaceChange& change,
                                                   std::int64_t now_us) {
  return Timed(StoreOperation::kWriteNamespace,
               [&] { return store_.WriteNamespace(key, change, now_us); });
}

absl::StatusOr<DeletedNamespace> ObservedItems::DeleteNamespace(const NamespaceKey& key,
                                                                const NamespaceDeletion& deletion,
                                                                std::int64_t now_us) {
  return Timed(StoreOperation::kDeleteNamespace,
               [&] { return store_.DeleteNamespace(key, deletion, now_us); });
}

absl::StatusOr<std::optional<StagedNamespace>> ObservedItems::StageNamespace(
    const NamespaceKey& key, std::int64_t now_us) {
  return Timed(StoreOperation::kStageNamespace, [&] { return store_.StageNamespace(key, now_us); });
}

absl::StatusOr<bool> ObservedItems::StageItems(const StagedNamespace& staged,
                                               std::span<const Item> items, std::int64_t now_us) {
  return Timed(StoreOperation::kStageItems,
               [&] { return store_.StageItems(staged, items, now_us); });
}

absl::StatusOr<bool> ObservedItems::PublishNamespace(const StagedNamespace& staged,
                                                     const NamespaceRow& row) {
  return Timed(StoreOperation::kPublishNamespace,
               [&] { return store_.PublishNamespace(staged, row); });
}

absl::Status ObservedItems::DropNamespace(const StagedNamespace& staged) {
  return Timed(StoreOperation::kDropNamespace, [&] { return store_.DropNamespace(staged); });
}

absl::StatusOr<std::vector<std::optional<ItemRequestRecord>>> ObservedItems::FindItemRequests(
    const NamespaceKey& key, std::span<const std::string> request_ids) {
  return Timed(StoreOperation::kFindItemRequests,
               [&] { return store_.FindItemRequests(key, request_ids); });
}

absl::Status ObservedItems::TouchItems(std::span<const ItemTouch> touches) {
  return Timed(StoreOperation::kTouchItems, [&] { return store_.TouchItems(touches); });
}

absl::StatusOr<ItemUsage> ObservedItems::ReadItemUsage(std::string_view tenant) {
  return Timed(StoreOperation::kReadItemUsage, [&] { return store_.ReadItemUsage(tenant); });
}

absl::StatusOr<std::int64_t> ObservedItems::PurgeItems(std::int64_t now_us, std::int64_t keep_us,
                                                       std::int64_t max_rows) {
  return Timed(StoreOperation::kPurgeItems,
               [&] { return store_.PurgeItems(now_us, keep_us, max_rows); });
}

}  // namespace memoryd
