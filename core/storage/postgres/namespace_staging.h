// Namespaces that are made whole of items which are stored before.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_NAMESPACE_STAGING_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_NAMESPACE_STAGING_H_

#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/storage/item_store.h"
#include "core/storage/postgres/batch_writer.h"

namespace memoryd {

// ItemStore::StageNamespace, StageItems, PublishNamespace and DropNamespace.
absl::StatusOr<std::optional<StagedNamespace>> StageNamespaceRow(const CommitContext& context,
                                                                 const NamespaceKey& key,
                                                                 std::int64_t now_us);
absl::StatusOr<bool> StageItemRows(const CommitContext& context, const StagedNamespace& staged,
                                   std::span<const Item> items, std::int64_t now_us);
absl::StatusOr<bool> PublishNamespaceRow(const CommitContext& context,
                                         const StagedNamespace& staged, const NamespaceRow& row);
absl::Status DropStagedNamespace(const CommitContext& context, const StagedNamespace& staged);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_NAMESPACE_STAGING_H_
