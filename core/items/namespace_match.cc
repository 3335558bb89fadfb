#include "core/items/namespace_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/field_path.h"
#include "core/base/status_macros.h"
#include "core/items/item_rules.h"
#include "core/items/namespace_path.h"

namespace memoryd {
namespace {

bool Matches(const NamespaceMatch& match, std::span<const std::string_view> names) {
  if (match.names.size() > names.size()) return false;
  const auto end = match.end == NamespaceMatch::End::kPrefix ? names.first(match.names.size())
                                                             : names.last(match.names.size());
  return std::equal(end.begin(), end.end(), match.names.begin(),
                    [](std::string_view name, std::string_view wanted) {
                      return wanted == kAnyName || wanted == name;
                    });
}

absl::Status Check(const FieldPath& field, const NamespaceMatch& match) {
  if (match.names.size() > kMaxNamespaceNames) {
    return InvalidField(field.Field("names"), fmt::format("must have at most {} names; got {}",
                                                          kMaxNamespaceNames, match.names.size()));
  }
  for (std::size_t i = 0; i < match.names.size(); ++i) {
    MEMORYD_RETURN_IF_ERROR(CheckItemName(field.Element("names", static_cast<std::int64_t>(i)),
                                          match.names[i], kMaxNamespaceNameBytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NamespaceFilter> NamespaceFilter::Make(std::string_view field,
                                                      std::vector<NamespaceMatch> matches) {
  if (matches.size() > kMaxNamespaceMatches) {
    return InvalidField(field, fmt::format("must have at most {} conditions; got {}",
                                           kMaxNamespaceMatches, matches.size()));
  }
  NamespaceFilter filter;
  for (std::size_t i = 0; i < matches.size(); ++i) {
    const FieldPath at(field, static_cast<std::int64_t>(i));
    MEMORYD_RETURN_IF_ERROR(Check(at, matches[i]));
    if (matches[i].end != NamespaceMatch::End::kPrefix) continue;
    const auto any = std::find(matches[i].names.begin(), matches[i].names.end(), kAnyName);
    // The reserved namespace has nothing to list, and need not be refused to who looks for it.
    absl::StatusOr<NamespacePath> begin = NamespacePath::MakePrefix(
        at, "names",
        {matches[i].names.data(), static_cast<std::size_t>(any - matches[i].names.begin())});
    if (begin.ok() && begin->depth() > filter.begin_.depth()) filter.begin_ = *std::move(begin);
  }
  filter.matches_ = std::move(matches);
  return filter;
}

bool NamespaceFilter::Passes(const NamespacePath& path) const {
  const std::vector<std::string_view> names = path.names();
  return std::all_of(matches_.begin(), matches_.end(),
                     [&names](const NamespaceMatch& match) { return Matches(match, names); });
}

}  // namespace memoryd
