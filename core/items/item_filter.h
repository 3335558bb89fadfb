// Which items a list or a search holds, by the fields of their values.
#ifndef MEMORYD_CORE_ITEMS_ITEM_FILTER_H_
#define MEMORYD_CORE_ITEMS_ITEM_FILTER_H_

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/field_path.h"
#include "core/items/item.h"

namespace memoryd {

inline constexpr std::size_t kMaxFilterBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMaxFilterDepth = 16;
inline constexpr std::size_t kMaxFilterKeys = 256;

// Conditions in the form of memoryd.v1.SearchItemsRequest.filter_json, which says what each means.
// No store knows them: it is the same code that decides for all. Immutable and cheap to copy; any
// thread may call it.
class ItemFilter {
 public:
  // Lets every item pass.
  ItemFilter() = default;

  // The filter of no bytes, and that of an empty object, let every item pass. INVALID_ARGUMENT
  // names `field`.
  static absl::StatusOr<ItemFilter> Parse(const FieldPath& field, std::string_view json);

  bool empty() const { return root_ == nullptr; }

  // DATA_LOSS for a JSON value that can't be read back. Takes as long as the value is large; beside
  // it, no more memory than its largest text and the filter need.
  absl::StatusOr<bool> Passes(const ItemContent& content) const;

 private:
  struct Condition;
  class Excerpt;

  explicit ItemFilter(std::shared_ptr<const Condition> root) : root_(std::move(root)) {}

  // Shared by copies; null where there is nothing to test.
  std::shared_ptr<const Condition> root_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_ITEMS_ITEM_FILTER_H_
