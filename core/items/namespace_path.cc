#include "core/items/namespace_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/field_path.h"
#include "core/base/status_macros.h"
#include "core/items/item_rules.h"

namespace memoryd {
namespace {

constexpr char kBehindName = '\x01';

absl::Status CheckNames(const FieldPath& above, std::string_view field,
                        std::span<const std::string> names) {
  if (names.size() > kMaxNamespaceNames) {
    return InvalidField(above.Field(field), fmt::format("must have at most {} names; got {}",
                                                        kMaxNamespaceNames, names.size()));
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    MEMORYD_RETURN_IF_ERROR(CheckItemName(above.Element(field, static_cast<std::int64_t>(i)),
                                          names[i], kMaxNamespaceNameBytes));
  }
  if (!names.empty() && names.front() == kReservedNamespace) {
    return InvalidField(above.Element(field, 0), "`memoryd` is reserved: use another first name");
  }
  return absl::OkStatus();
}

std::string Join(std::span<const std::string> names) {
  std::string stored;
  for (const std::string& name : names) {
    stored += name;
    stored += kBehindName;
  }
  return stored;
}

}  // namespace

absl::StatusOr<NamespacePath> NamespacePath::Make(const FieldPath& above, std::string_view field,
                                                  std::span<const std::string> names) {
  if (names.empty()) {
    return InvalidField(above.Field(field),
                        fmt::format("must have 1 to {} names; got none", kMaxNamespaceNames));
  }
  return MakePrefix(above, field, names);
}

absl::StatusOr<NamespacePath> NamespacePath::MakePrefix(const FieldPath& above,
                                                        std::string_view field,
                                                        std::span<const std::string> names) {
  MEMORYD_RETURN_IF_ERROR(CheckNames(above, field, names));
  return NamespacePath(Join(names));
}

absl::StatusOr<NamespacePath> NamespacePath::FromStored(std::string_view stored) {
  NamespacePath path{std::string(stored)};
  const std::vector<std::string_view> names = path.names();
  const bool whole = !stored.empty() && stored.back() == kBehindName;
  const auto is_empty = [](std::string_view name) { return name.empty(); };
  if (!whole || names.size() > kMaxNamespaceNames ||
      std::any_of(names.begin(), names.end(), is_empty)) {
    return absl::DataLossError("a namespace's stored path can't be read back");
  }
  return path;
}

std::string NamespacePath::StoredEnd() const {
  std::string end = stored_;
  if (!end.empty()) end.back() = kBehindName + 1;
  return end;
}

std::size_t NamespacePath::depth() const {
  return static_cast<std::size_t>(std::count(stored_.begin(), stored_.end(), kBehindName));
}

std::vector<std::string_view> NamespacePath::names() const {
  std::vector<std::string_view> names;
  const std::string_view stored = stored_;
  for (std::size_t begin = 0; begin < stored.size();) {
    const std::size_t end = std::min(stored.find(kBehindName, begin), stored.size());
    names.push_back(stored.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

NamespacePath NamespacePath::Cut(std::size_t depth) const {
  std::size_t size = 0;
  for (std::size_t names = 0; names < depth && size < stored_.size(); ++names) {
    size = stored_.find(kBehindName, size) + 1;
  }
  return NamespacePath(stored_.substr(0, size));
}

NamespacePath NamespacePath::Moved(const NamespacePath& old_prefix,
                                   const NamespacePath& new_prefix) const {
  return NamespacePath(new_prefix.stored_ + stored_.substr(old_prefix.stored_.size()));
}

}  // namespace memoryd
