#include "core/items/namespace_config.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace memoryd {
namespace {

constexpr char kRefresh[] = "refresh_ttl";
constexpr char kSearch[] = "search";

}  // namespace

absl::StatusOr<NamespaceConfig> NamespaceConfig::FromStored(std::string subject,
                                                            std::int64_t ttl_us,
                                                            std::string_view config) {
  NamespaceConfig result;
  result.subject = std::move(subject);
  result.ttl_us = ttl_us;
  if (config.empty()) return result;
  const nlohmann::json parsed =
      nlohmann::json::parse(config.begin(), config.end(), nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) {
    return absl::DataLossError("the stored configuration of a namespace can't be read");
  }
  if (const auto refresh = parsed.find(kRefresh); refresh != parsed.end()) {
    result.refresh_ttl = refresh->is_boolean() && refresh->get<bool>();
  }
  if (const auto search = parsed.find(kSearch); search != parsed.end()) {
    result.search = search->dump();
  }
  return result;
}

std::string NamespaceConfig::Encode() const {
  nlohmann::json stored = nlohmann::json::object();
  if (!refresh_ttl) stored[kRefresh] = false;
  if (search != kSearchAll) stored[kSearch] = nlohmann::json::parse(search);
  return stored.empty() ? std::string() : stored.dump();
}

void NamespaceConfig::Apply(const NamespaceSettings& settings) {
  if (settings.subject.has_value()) subject = *settings.subject;
  if (settings.ttl_us.has_value()) ttl_us = *settings.ttl_us;
  if (settings.refresh_ttl.has_value()) refresh_ttl = *settings.refresh_ttl;
  if (settings.search.has_value()) search = *settings.search;
}

std::string_view NamespaceConfig::DifferenceTo(const NamespaceSettings& settings) const {
  if (settings.subject.value_or(subject) != subject) return "subject";
  if (settings.ttl_us.value_or(ttl_us) != ttl_us) return "default_ttl";
  if (settings.refresh_ttl.value_or(refresh_ttl) != refresh_ttl) return kRefresh;
  if (settings.search.value_or(search) != search) return kSearch;
  return {};
}

}  // namespace memoryd
