#include "core/reads/item_view.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/items/item.h"
#include "core/items/namespace_path.h"
#include "core/storage/item_store.h"

namespace memoryd {
namespace {

// How often something is read again that was configured or replaced meanwhile.
constexpr int kTries = 5;

absl::Status KeepsChanging() {
  return Error(absl::StatusCode::kAborted, "NAMESPACE_REPLACED",
               "the namespace was replaced, or given to another subject, while it was read; try "
               "again");
}

// Whether it was one namespace with one subject all the time: no version comes again.
bool IsSame(const std::optional<NamespaceRow>& before, const std::optional<NamespaceRow>& after) {
  if (!before.has_value()) return true;  // Nothing was read of it.
  return after.has_value() && before->generation == after->generation &&
         before->config_version == after->config_version;
}

}  // namespace

absl::Status NamespaceNotFound() {
  return Error(absl::StatusCode::kNotFound, "NAMESPACE_NOT_FOUND",
               "namespace: there is no such namespace");
}

absl::StatusOr<std::vector<std::optional<NamespaceRow>>> ItemView::FindNamespaces(
    std::span<const NamespaceKey> keys) const {
  MEMORYD_ASSIGN_OR_RETURN(Rows rows, store_.FindNamespaces(keys));
  if (subject_.empty()) return rows;
  for (std::optional<NamespaceRow>& row : rows) {
    if (row.has_value() && row->subject != subject_) row.reset();
  }
  return rows;
}

absl::StatusOr<std::optional<NamespaceRow>> ItemView::FindNamespace(const NamespaceKey& key) const {
  MEMORYD_ASSIGN_OR_RETURN(Rows rows, FindNamespaces({&key, 1}));
  return std::move(rows.front());
}

template <typename T>
absl::StatusOr<T> ItemView::ReadOwn(
    std::span<const NamespaceKey> keys,
    const std::function<absl::StatusOr<T>(const Rows&)>& read) const {
  MEMORYD_ASSIGN_OR_RETURN(Rows before, FindNamespaces(keys));
  for (int i = 0; i < kTries; ++i) {
    absl::StatusOr<T> result = read(before);
    MEMORYD_ASSIGN_OR_RETURN(Rows after, FindNamespaces(keys));
    // An error, too, may tell of what another stored.
    if (std::equal(before.begin(), before.end(), after.begin(), IsSame)) return result;
    before = std::move(after);
  }
  return KeepsChanging();
}

absl::StatusOr<std::vector<std::optional<Item>>> ItemView::ReadItems(std::span<const ItemKey> keys,
                                                                     std::int64_t now_us,
                                                                     bool with_vectors,
                                                                     std::int64_t max_bytes) const {
  using Items = std::vector<std::optional<Item>>;
  if (subject_.empty() || keys.empty()) {
    return store_.ReadItems(keys, now_us, with_vectors, max_bytes);
  }
  std::map<NamespaceKey, std::size_t> places;
  for (const ItemKey& key : keys) places.try_emplace(key.name_space, 0);
  std::vector<NamespaceKey> namespaces;
  for (auto& [key, place] : places) {
    place = namespaces.size();
    namespaces.push_back(key);
  }
  return ReadOwn<Items>(namespaces, [&](const Rows& rows) -> absl::StatusOr<Items> {
    std::vector<ItemKey> own;
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!rows[places.at(keys[i].name_space)].has_value()) continue;
      own.push_back(keys[i]);
      indices.push_back(i);
    }
    Items items(keys.size());
    if (own.empty()) return items;
    MEMORYD_ASSIGN_OR_RETURN(Items found, store_.ReadItems(own, now_us, with_vectors, max_bytes));
    for (std::size_t i = 0; i < own.size(); ++i) items[indices[i]] = std::move(found[i]);
    return items;
  });
}

absl::StatusOr<ItemPage> ItemView::ListItems(const NamespaceKey& key, std::uint64_t generation,
                                             const ItemRange& range, std::int64_t now_us) const {
  if (subject_.empty()) return store_.ListItems(key, generation, range, now_us);
  return ReadOwn<ItemPage>({&key, 1}, [&](const Rows& rows) -> absl::StatusOr<ItemPage> {
    if (!rows.front().has_value()) return ItemPage();
    const std::uint64_t own = rows.front()->generation;
    if (generation != 0 && generation != own) return ItemPage();
    return store_.ListItems(key, own, range, now_us);
  });
}

absl::StatusOr<std::vector<ListedNamespace>> ItemView::ListNamespaces(
    std::string_view tenant, const NamespacePath& prefix, std::string_view after,
    std::int64_t max_namespaces) const {
  return store_.ListNamespaces(tenant, prefix, after, subject_, max_namespaces);
}

absl::Status ItemView::TouchItems(std::span<const ItemTouch> touches) const {
  return store_.TouchItems(touches);
}

}  // namespace memoryd
