// How a namespace treats its items.
#ifndef MEMORYD_CORE_ITEMS_NAMESPACE_CONFIG_H_
#define MEMORYD_CORE_ITEMS_NAMESPACE_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace memoryd {

// What is searched of items that say nothing: the whole value. In the form of ItemContent::search.
inline constexpr std::string_view kSearchAll = R"(["$"])";

// What a caller asks for; absent fields say nothing.
struct NamespaceSettings {
  std::optional<std::string> subject{};
  std::optional<std::int64_t> ttl_us{};  // 0: none.
  std::optional<bool> refresh_ttl{};
  std::optional<std::string> search{};  // In the form of ItemContent::search.

  bool empty() const { return !subject && !ttl_us && !refresh_ttl && !search; }
};

// The configuration in force. Subject and ttl have columns of their own in stores; the rest is
// NamespaceRow::config.
struct NamespaceConfig {
  std::string subject;
  std::int64_t ttl_us = 0;
  bool refresh_ttl = true;
  std::string search = std::string(kSearchAll);

  // DATA_LOSS for a `config` that was not made by Encode().
  static absl::StatusOr<NamespaceConfig> FromStored(std::string subject, std::int64_t ttl_us,
                                                    std::string_view config);
  // Empty when nothing differs from the defaults.
  std::string Encode() const;

  void Apply(const NamespaceSettings& settings);
  // The name of a field that `settings` has otherwise, empty when there is none.
  std::string_view DifferenceTo(const NamespaceSettings& settings) const;

  friend bool operator==(const NamespaceConfig&, const NamespaceConfig&) = default;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_ITEMS_NAMESPACE_CONFIG_H_
