// Reads of items and of namespaces, as the store has them now.
#ifndef MEMORYD_CORE_READS_ITEM_READS_H_
#define MEMORYD_CORE_READS_ITEM_READS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/base/wall_clock.h"
#include "core/calls/calls.h"
#include "core/items/item.h"
#include "core/items/item_filter.h"
#include "core/items/namespace_config.h"
#include "core/items/namespace_match.h"
#include "core/items/namespace_path.h"
#include "core/reads/item_search.h"
#include "core/reads/item_view.h"
#include "core/storage/item_store.h"

namespace memoryd {

struct ItemGet {
  ItemKey key;
  // Whether the item's ttl begins again; absent: as its namespace says.
  std::optional<bool> refresh_ttl = {};
  bool with_vector = false;
};

// Who reads.
struct ItemCaller {
  std::string tenant;
  std::string subject = {};  // Of the credential, see ItemView.
};

struct ItemsRead {
  std::vector<std::optional<Item>> items;  // As they were asked for.
  MemoryBudget::Hold memory;               // Of the items.
};

struct ItemListRequest {
  NamespaceKey key;
  // Of the credential, see ItemView.
  std::string subject = {};
  // Of the page before; 0 for the first page.
  std::uint64_t generation = 0;
  // `max_items` and `max_bytes` are those of the page.
  ItemRange range;
  ItemFilter filter;
  bool refresh_ttl = false;
};

struct ItemList {
  std::vector<Item> items;
  std::uint64_t generation = 0;  // Of the namespace; 0: nothing was read.
  // Where the next page begins, as ItemRange has it; meaningless on the last one.
  std::string after_key;
  std::int64_t after_version = 0;
  bool more = false;
  MemoryBudget::Hold memory;  // Of the items.
};

struct NamespaceListRequest {
  std::string tenant = {};
  NamespaceFilter filter = {};
  // The most names of a path that is listed; 0: any.
  std::size_t max_depth = 0;
  bool include_empty = false;  // Also those without items.
  std::string subject = {};    // Empty: any. A caller of one subject asks for its own.
  std::string after = {};      // NamespaceList::after of the page before.
  std::int64_t max_namespaces = 100;
};

struct NamespaceList {
  std::vector<ListedNamespace> namespaces;  // With a `max_depth`, rows without meaning.
  std::string after;
  bool more = false;
  MemoryBudget::Hold memory;  // Of the namespaces.
};

// The configuration in a row. DATA_LOSS when it can't be read.
absl::StatusOr<NamespaceConfig> ConfigOf(const NamespaceRow& row);

// What a caller sees is ItemView's to say. Any thread may call; nothing waits. `done` runs exactly
// once.
class ItemReads {
 public:
  // What is pointed to outlives it.
  struct Options {
    ItemStore* store = nullptr;
    MemoryBudget* memory = nullptr;
    Calls* calls = nullptr;
    // Searches run here, since they may take long.
    Executor* searchers = nullptr;
    // Null: searches go by words alone.
    std::shared_ptr<const WordVectors> word_vectors;
    const WallClock* clock = nullptr;
  };
  template <typename T>
  using Done = std::function<void(absl::StatusOr<T>)>;

  explicit ItemReads(const Options& options) : options_(options) {}

  // All in one look at the store. FAILED_PRECONDITION `REPLY_TOO_LARGE` above 64 MiB.
  void Get(ItemCaller caller, std::vector<ItemGet> gets, CallEnd end, Done<ItemsRead> done);
  // ABORTED `NAMESPACE_REPLACED` when the namespace is not that of the page before.
  void List(ItemListRequest request, CallEnd end, Done<ItemList> done);
  // See ItemSearch.
  void Search(ItemSearchRequest request, CallEnd end, Done<ItemsFound> done);
  // NOT_FOUND `NAMESPACE_NOT_FOUND`.
  void GetNamespace(ItemCaller caller, NamespacePath path, CallEnd end, Done<NamespaceRow> done);
  void ListNamespaces(NamespaceListRequest request, CallEnd end, Done<NamespaceList> done);

 private:
  absl::StatusOr<ItemsRead> ReadNow(const std::string& tenant, const ItemView& view,
                                    const std::vector<ItemGet>& gets);
  absl::StatusOr<ItemList> ListNow(const ItemListRequest& request);
  absl::StatusOr<ItemsFound> SearchNow(const ItemSearchRequest& request, const PendingRead& read);
  absl::StatusOr<NamespaceList> ListNamespacesNow(const NamespaceListRequest& request);
  // Begins the ttls of what was read again, where that is wanted, and gives the items their new
  // times. An expiry that is not stored is an error: the item would go too early.
  absl::Status Refresh(const ItemView& view, const std::vector<ItemGet>& gets,
                       std::vector<std::optional<Item>>& items);
  // The same for all items of a page.
  absl::Status RefreshListed(const ItemView& view, const NamespaceKey& key,
                             std::vector<Item>& listed);

  const Options options_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_READS_ITEM_READS_H_
