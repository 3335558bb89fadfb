// ImportNamespace: a namespace written as it was elsewhere, piece by piece.
#ifndef MEMORYD_CORE_LIFECYCLE_NAMESPACE_IMPORT_H_
#define MEMORYD_CORE_LIFECYCLE_NAMESPACE_IMPORT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/wall_clock.h"
#include "core/calls/calls.h"
#include "core/items/item.h"
#include "core/items/namespace_config.h"
#include "core/items/namespace_path.h"
#include "core/storage/item_store.h"
#include "core/writes/items/item_quota.h"

namespace memoryd {

struct NamespaceImportRequest {
  NamespaceKey key;
  NamespaceConfig config;
  std::int64_t create_us = 0;  // 0: now.
};

// Items as they were, the one that was written least recently first. Versions are the import's to
// give.
struct ImportedNamespaceItems {
  std::vector<Item> items;
  // What their memory is taken from.
  std::shared_ptr<const void> keep_alive;
};

// One import on its way. What it stores is reached when Publish() has made the namespace of it. Any
// thread, but one call at a time: the next one after the one before has called back. `done` runs
// once, on any thread. After an error only Drop() is left.
class NamespaceImport : public std::enable_shared_from_this<NamespaceImport> {
 public:
  using Done = std::function<void(absl::Status)>;

  // What is pointed to outlives it.
  struct Options {
    ItemStore* store = nullptr;
    Calls* calls = nullptr;
    ItemQuota* quota = nullptr;
    const WallClock* clock = nullptr;
  };

  NamespaceImport(const Options& options, NamespaceImportRequest request)
      : options_(options), request_(std::move(request)) {}

  // ALREADY_EXISTS `NAMESPACE_EXISTS`.
  void Begin(Done done);
  // Of two items with one key the later one holds. Expired ones are left out. INVALID_ARGUMENT
  // `VECTOR_SIZE`; RESOURCE_EXHAUSTED `QUOTA_EXCEEDED`; ABORTED `NAMESPACE_REPLACED` when what was
  // stored is gone.
  void Add(ImportedNamespaceItems items, Done done);
  // Calls back with the row. INVALID_ARGUMENT when there were not as many items. ALREADY_EXISTS
  // `NAMESPACE_EXISTS`, ABORTED `NAMESPACE_REPLACED`.
  void Publish(std::int64_t item_count, std::function<void(absl::StatusOr<NamespaceRow>)> done);
  // Gives up what is stored. What could not be given up is purged an hour later.
  void Drop();

 private:
  struct Nothing {};
  using Call = ReadCall<Nothing>;

  // Has a reader do `work`, once there is room for `growth` beside what is staged.
  void Run(TenantUsage growth, std::function<absl::Status()> work, Done done);
  // Those of `items` that are stored, with their versions.
  absl::StatusOr<std::vector<Item>> Take(std::vector<Item> items);
  absl::Status Stage(const std::vector<Item>& items);
  absl::StatusOr<NamespaceRow> PublishNow();

  const Options options_;
  const NamespaceImportRequest request_;
  StagedNamespace staged_;
  NamespaceRow row_;  // As it is to be.
  std::int64_t item_count_ = 0;
  TenantUsage growth_;  // At most what the namespace takes.
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_LIFECYCLE_NAMESPACE_IMPORT_H_
