// The path of a namespace, and the form in which stores keep it.
#ifndef MEMORYD_CORE_ITEMS_NAMESPACE_PATH_H_
#define MEMORYD_CORE_ITEMS_NAMESPACE_PATH_H_

#include <compare>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/field_path.h"

namespace memoryd {

inline constexpr std::size_t kMaxNamespaceNames = 16;
inline constexpr std::size_t kMaxNamespaceNameBytes = 256;
// The first name of namespaces that are the server's own.
inline constexpr std::string_view kReservedNamespace = "memoryd";

// Names from the first to the last; as a prefix it may have none. Immutable and small enough to
// copy.
//
// The stored form is each name with a U+0001 behind it, which no name holds and which sorts before
// every character of one. So stored forms sort bytewise as paths do name by name, and a path begins
// with another one exactly if its stored form does.
class NamespacePath {
 public:
  // The path of no names, which all others begin with.
  NamespacePath() = default;

  // A path of 1 to 16 names. INVALID_ARGUMENT names the element of `field`, which is a field of the
  // message at `above`.
  static absl::StatusOr<NamespacePath> Make(const FieldPath& above, std::string_view field,
                                            std::span<const std::string> names);
  // The same of 0 to 16 names.
  static absl::StatusOr<NamespacePath> MakePrefix(const FieldPath& above, std::string_view field,
                                                  std::span<const std::string> names);
  // DATA_LOSS for what no path's stored() can be.
  static absl::StatusOr<NamespacePath> FromStored(std::string_view stored);

  const std::string& stored() const { return stored_; }
  // Above the stored form of every path that begins with this one, and at most that of any other
  // path behind them. Empty for the path of no names: there is no bound.
  std::string StoredEnd() const;

  // How many names there are.
  std::size_t depth() const;
  // Valid as long as the path.
  std::vector<std::string_view> names() const;

  bool StartsWith(const NamespacePath& prefix) const {
    return std::string_view(stored_).starts_with(prefix.stored_);
  }
  // The first `depth` names; all, where there are no more.
  NamespacePath Cut(std::size_t depth) const;
  // The path whose first names, `old_prefix`, with which this one begins, are replaced.
  NamespacePath Moved(const NamespacePath& old_prefix, const NamespacePath& new_prefix) const;

  friend auto operator<=>(const NamespacePath&, const NamespacePath&) = default;

 private:
  explicit NamespacePath(std::string stored) : stored_(std::move(stored)) {}

  std::string stored_;
};

// A namespace of a tenant; order is bytewise.
struct NamespaceKey {
  std::string tenant;
  NamespacePath path;

  friend auto operator<=>(const NamespaceKey&, const NamespaceKey&) = default;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_ITEMS_NAMESPACE_PATH_H_
