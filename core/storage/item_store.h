// Where items are kept: the storage interface of namespaces, beside that of sessions.
#ifndef MEMORYD_CORE_STORAGE_ITEM_STORE_H_
#define MEMORYD_CORE_STORAGE_ITEM_STORE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
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

namespace memoryd {

struct ItemKey {
  NamespaceKey name_space;
  std::string key;
};

// A namespace's row. What is not counted by it was not there when it was written last: items that
// have expired count until they are purged.
struct NamespaceRow {
  // Part of the key of every item. Random; a new one makes all older items unreachable.
  std::uint64_t generation = 0;
  // Of the newest write. That of a namespace that is made begins with the time in microseconds, and
  // above that of one which was deleted there in the last 24 hours, so that no version comes again.
  std::int64_t version = 0;
  std::int64_t config_version = 0;  // `version` when the configuration was written last.
  std::int64_t item_count = 0;
  std::int64_t item_bytes = 0;   // See CountedBytes().
  std::int64_t vector_size = 0;  // 0: no item has had a vector.
  std::int64_t ttl_us = 0;       // Of items that are stored without one; 0: none.
  std::int64_t create_us = 0;
  std::int64_t update_us = 0;
  std::string subject;  // Empty: none.
  std::string config;   // Opaque to stores.

  friend bool operator==(const NamespaceRow&, const NamespaceRow&) = default;
};

struct ListedNamespace {
  NamespacePath path;
  NamespaceRow row;
};

// A namespace's configuration as it is to be.
struct NamespaceChange {
  // The row's config_version; 0: there must be no row.
  std::int64_t expected_config_version = 0;
  std::int64_t ttl_us = 0;
  std::string subject = {};
  std::string config = {};
  // When the call began. A namespace that was erased since is not made.
  std::int64_t begun_us = std::numeric_limits<std::int64_t>::max();
};

// A namespace whose items are stored before it is there.
struct StagedNamespace {
  NamespaceKey key;
  // Of its items; no namespace has it.
  std::uint64_t generation = 0;
  // The least that they may have: none at this path had it.
  std::int64_t first_version = 0;
};

enum class ItemListOrder { kKey, kKeyDescending, kOldestFirst, kNewestFirst };

// A part of a namespace, and how much of it to read.
struct ItemRange {
  ItemListOrder order = ItemListOrder::kKey;
  // Keys in [begin_key, end_key); an empty `end_key` is no bound.
  std::string begin_key = {};
  std::string end_key = {};
  // Behind this key, or this version, in the order asked for; empty and 0: from the begin.
  std::string after_key = {};
  std::int64_t after_version = 0;
  std::int64_t max_items = 0;
  // Of values and vectors; the first item is read however large it is.
  std::int64_t max_bytes = std::int64_t{4} << 20;
  bool with_values = true;
  bool with_vectors = false;
};

struct ItemPage {
  std::vector<Item> items;
  bool more = false;  // There may be further ones.
  // Of the namespace; 0 for a page without items.
  std::uint64_t generation = 0;
};

// An item that was read: its ttl begins again, unless it was written meanwhile.
struct ItemTouch {
  ItemKey key;
  std::int64_t version = 0;
  std::int64_t expire_us = 0;
};

// How a namespace is deleted.
struct NamespaceDeletion {
  // It is erased: what its request_ids keep is forgotten, so that the fingerprints become empty,
  // and stay; and no call that began before the deletion makes it again.
  bool forget = false;
  // The one that it must have; empty: any. A namespace of another stays as it is.
  std::string subject = {};
};

struct DeletedNamespace {
  bool existed = false;
  bool of_other = false;  // There is one of another subject than was asked for.
  std::int64_t item_count = 0;
  std::int64_t item_bytes = 0;
};

// Bytes that a namespace counts for quotas beside its items: its path and configuration, and what
// its row and its places in indexes take.
inline std::int64_t CountedBytes(const NamespacePath& path, std::string_view subject,
                                 std::string_view config) {
  constexpr std::int64_t kRowBytes = 256;
  return kRowBytes +
         static_cast<std::int64_t>(path.stored().size() + subject.size() + config.size());
}

// What a tenant has stored.
struct ItemUsage {
  std::int64_t namespaces = 0;
  std::int64_t items = 0;
  std::int64_t bytes = 0;  // Of items and of namespaces.

  friend bool operator==(const ItemUsage&, const ItemUsage&) = default;
};

// Any thread may call any method at any time; calls block, and end in errors, as those of Store do.
// Times are given by the caller, in microseconds since the epoch. Nothing is kept in memory: every
// call sees what was acknowledged before it began.
class ItemStore {
 public:
  virtual ~ItemStore() = default;

  // Writes every batch that can be written, each in one transaction, and says for each, in order,
  // what became of it. A batch that can't be written never hurts another. Batches may be of one
  // namespace, but no two write the same key. A namespace is made for a batch that stores an item;
  // where batches of several subjects could make it, one of them does.
  virtual std::vector<ItemBatchResult> WriteItems(std::span<const ItemBatch> batches,
                                                  std::int64_t now_us) = 0;

  // For each key its item at `now_us`, if any, in one round trip. FAILED_PRECONDITION
  // `REPLY_TOO_LARGE` when values and vectors exceed `max_bytes`.
  virtual absl::StatusOr<std::vector<std::optional<Item>>> ReadItems(std::span<const ItemKey> keys,
                                                                     std::int64_t now_us,
                                                                     bool with_vectors,
                                                                     std::int64_t max_bytes) = 0;

  // Items of a namespace at `now_us`, empty when there is no namespace. `generation`, if not 0, is
  // the namespace's; otherwise nothing is found of another one.
  virtual absl::StatusOr<ItemPage> ListItems(const NamespaceKey& key, std::uint64_t generation,
                                             const ItemRange& range, std::int64_t now_us) = 0;

  // For each key its row, if any.
  virtual absl::StatusOr<std::vector<std::optional<NamespaceRow>>> FindNamespaces(
      std::span<const NamespaceKey> keys) = 0;

  // The tenant's namespaces that begin with `prefix` and are greater than the stored path `after`,
  // ascending, at most `max_namespaces`; of one subject, unless that is empty.
  virtual absl::StatusOr<std::vector<ListedNamespace>> ListNamespaces(
      std::string_view tenant, const NamespacePath& prefix, std::string_view after,
      std::string_view subject, std::int64_t max_namespaces) = 0;

  // Makes the namespace or writes its configuration. False when it is not at the expected one, or
  // was erased since the call began. UNAVAILABLE `OUTCOME_UNKNOWN` when it may have been written.
  virtual absl::StatusOr<bool> WriteNamespace(const NamespaceKey& key,
                                              const NamespaceChange& change,
                                              std::int64_t now_us) = 0;

  // Deletes the namespace; its items are unreachable from then on, and purged behind. OK is as
  // durable as that of a write, also where there was nothing to delete any more. UNAVAILABLE
  // `OUTCOME_UNKNOWN` when it may have been deleted.
  virtual absl::StatusOr<DeletedNamespace> DeleteNamespace(const NamespaceKey& key,
                                                           const NamespaceDeletion& deletion,
                                                           std::int64_t now_us) = 0;

  // Begins a namespace that PublishNamespace makes whole. What is staged for it is unreachable, and
  // purged when nothing was staged for kStagedUs. None when there is a namespace.
  virtual absl::StatusOr<std::optional<StagedNamespace>> StageNamespace(const NamespaceKey& key,
                                                                        std::int64_t now_us) = 0;

  // Stores items as they are; their keys differ. Of a key that is staged already the item is
  // replaced. False: what was staged is gone, and nothing was stored.
  virtual absl::StatusOr<bool> StageItems(const StagedNamespace& staged,
                                          std::span<const Item> items, std::int64_t now_us) = 0;

  // Makes the namespace of what is staged and this row, whose generation, `config_version` and
  // counts are the store's to know. False when there is a namespace, was one since `staged` was
  // begun, or what was staged is gone; then nothing is staged any more. UNAVAILABLE
  // `OUTCOME_UNKNOWN` when it may have been made.
  virtual absl::StatusOr<bool> PublishNamespace(const StagedNamespace& staged,
                                                const NamespaceRow& row) = 0;

  // Gives up what is staged, which is purged behind.
  virtual absl::Status DropNamespace(const StagedNamespace& staged) = 0;

  // For each request_id of the namespace what is kept under it, if anything. A record that is
  // returned is as durable as a write that was answered.
  virtual absl::StatusOr<std::vector<std::optional<ItemRequestRecord>>> FindItemRequests(
      const NamespaceKey& key, std::span<const std::string> request_ids) = 0;

  // Raises the time at which items expire, of those that are still at their version and expire some
  // time, but not as late. No version rises. Keys must differ.
  virtual absl::Status TouchItems(std::span<const ItemTouch> touches) = 0;

  // Takes as long as the tenant has namespaces.
  virtual absl::StatusOr<ItemUsage> ReadItemUsage(std::string_view tenant) = 0;

  // Deletes expired items, items of deleted namespaces and of given up ones, and what request_ids
  // have kept for longer than `keep_us`, in small steps, at most `max_rows`; returns how many rows
  // went. Fewer than `max_rows`: nothing is left for now.
  virtual absl::StatusOr<std::int64_t> PurgeItems(std::int64_t now_us, std::int64_t keep_us,
                                                  std::int64_t max_rows) = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_ITEM_STORE_H_
