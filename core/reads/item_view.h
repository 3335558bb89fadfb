// What a caller sees of a store of items.
#ifndef MEMORYD_CORE_READS_ITEM_VIEW_H_
#define MEMORYD_CORE_READS_ITEM_VIEW_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/storage/item_store.h"

namespace memoryd {

// NOT_FOUND `NAMESPACE_NOT_FOUND`.
absl::Status NamespaceNotFound();

// The reads of ItemStore, which say what they return, for a caller whose credential may be of one
// subject (docs/adr/0064). Such a caller sees the namespaces of its subject. Others are to it as if
// they were not there, whatever becomes of them while they are read.
//
// Each read looks at whose the namespaces are before and after. ABORTED `NAMESPACE_REPLACED` when
// they keep being made, deleted or configured in between. Any thread; for one call.
class ItemView {
 public:
  // `store` outlives it. `subject`: of the credential; empty: the caller sees all.
  ItemView(ItemStore* store, std::string subject) : store_(*store), subject_(std::move(subject)) {}

  // Of the credential; empty: none.
  const std::string& subject() const { return subject_; }

  absl::StatusOr<std::vector<std::optional<Item>>> ReadItems(std::span<const ItemKey> keys,
                                                             std::int64_t now_us, bool with_vectors,
                                                             std::int64_t max_bytes) const;
  absl::StatusOr<ItemPage> ListItems(const NamespaceKey& key, std::uint64_t generation,
                                     const ItemRange& range, std::int64_t now_us) const;
  absl::StatusOr<std::vector<std::optional<NamespaceRow>>> FindNamespaces(
      std::span<const NamespaceKey> keys) const;
  // The row of one, if the caller sees it.
  absl::StatusOr<std::optional<NamespaceRow>> FindNamespace(const NamespaceKey& key) const;
  absl::StatusOr<std::vector<ListedNamespace>> ListNamespaces(std::string_view tenant,
                                                              const NamespacePath& prefix,
                                                              std::string_view after,
                                                              std::int64_t max_namespaces) const;
  // Of items that it has read.
  absl::Status TouchItems(std::span<const ItemTouch> touches) const;

 private:
  using Rows = std::vector<std::optional<NamespaceRow>>;

  // Runs `read` until nothing came between it and the rows of `keys` that it is given.
  template <typename T>
  absl::StatusOr<T> ReadOwn(std::span<const NamespaceKey> keys,
                            const std::function<absl::StatusOr<T>(const Rows&)>& read) const;

  ItemStore& store_;
  const std::string subject_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_READS_ITEM_VIEW_H_
