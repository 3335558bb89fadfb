// Which namespaces a list holds.
#ifndef MEMORYD_CORE_ITEMS_NAMESPACE_MATCH_H_
#define MEMORYD_CORE_ITEMS_NAMESPACE_MATCH_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/field_path.h"
#include "core/items/namespace_path.h"

namespace memoryd {

// Stands for any one name.
inline constexpr std::string_view kAnyName = "*";
inline constexpr std::size_t kMaxNamespaceMatches = 16;

// A condition on one end of a path.
struct NamespaceMatch {
  enum class End { kPrefix, kSuffix };

  End end = End::kPrefix;
  // At most kMaxNamespaceNames; kAnyName matches any. None: every path matches.
  std::vector<std::string> names;
};

// Conditions that must all hold. Immutable: any thread may call it.
class NamespaceFilter {
 public:
  // Lets every path pass.
  NamespaceFilter() = default;

  // INVALID_ARGUMENT names what is wrong below `field`, such as `matches[1].names[0]`.
  static absl::StatusOr<NamespaceFilter> Make(std::string_view field,
                                              std::vector<NamespaceMatch> matches);

  bool Passes(const NamespacePath& path) const;

  // All paths that pass begin with it: the longest names before a wildcard that a prefix asks for.
  const NamespacePath& begin() const { return begin_; }

 private:
  std::vector<NamespaceMatch> matches_;
  NamespacePath begin_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_ITEMS_NAMESPACE_MATCH_H_
