#include "server/access/tenant_limits.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/model/session_config.h"
#include "server/settings/setting_value.h"
#include "server/wire/field_checks.h"

namespace memoryd {
namespace {

absl::Status Bad(const std::string& path, const YAML::Node& node, std::string_view message) {
  const int line = node.Mark().line;
  return absl::InvalidArgumentError(
      OnOneLine(fmt::format("{}:{}: tenants: {}", path, line < 0 ? 1 : line + 1, message)));
}

using Exception = TenantLimitTable::Exception;

// Sets one limit, or returns what is wrong with its value.
using ParseLimit = std::string (*)(const std::string& value, Exception& exception);

template <auto kLimit, std::int64_t kMost>
std::string ParseNumber(const std::string& value, Exception& exception) {
  auto& limit = (exception.*kLimit).emplace();
  using Number = std::remove_reference_t<decltype(limit)>;
  return ParseInt(value, Number{0}, Number{kMost}, limit);
}

std::string ParseRefreshOnRead(const std::string& value, Exception& exception) {
  return ParseBool(value, exception.refresh_on_read.emplace());
}

std::string TakeDefaultTemplate(const std::string& value, Exception& exception) {
  exception.default_template = value;
  return {};
}

struct LimitKey {
  std::string_view key;
  ParseLimit parse;
};

constexpr LimitKey kLimitKeys[] = {
    {"calls_per_second", &ParseNumber<&Exception::calls_per_second, kMaxTenantLimit>},
    {"calls_in_flight", &ParseNumber<&Exception::calls_in_flight, kMaxTenantLimit>},
    {"watches", &ParseNumber<&Exception::watches, kMaxTenantLimit>},
    {"sessions", &ParseNumber<&Exception::sessions, kMaxTenantQuota>},
    {"messages", &ParseNumber<&Exception::messages, kMaxTenantQuota>},
    {"mib", &ParseNumber<&Exception::mib, kMaxTenantQuota>},
    {"session_ttl_s", &ParseNumber<&Exception::session_ttl_s, kMaxTtlSeconds>},
    {"refresh_on_read", &ParseRefreshOnRead},
    {"keep_messages", &ParseNumber<&Exception::keep_messages, kMaxTenantQuota>},
    {"keep_bytes", &ParseNumber<&Exception::keep_bytes, kMaxTenantQuota>},
    {"message_ttl_s", &ParseNumber<&Exception::message_ttl_s, kMaxTtlSeconds>},
    {"model_tokens_per_day", &ParseNumber<&Exception::model_tokens_per_day, kMaxTenantQuota>},
    {"model_calls_per_day", &ParseNumber<&Exception::model_calls_per_day, kMaxTenantQuota>},
    {"default_template", &TakeDefaultTemplate},
};

absl::StatusOr<std::vector<std::string>> ParseTemplates(const YAML::Node& list,
                                                        const std::string& path) {
  constexpr std::string_view kExpected = "templates: must be a list of names";
  if (!list.IsSequence()) return Bad(path, list, kExpected);
  std::vector<std::string> names;
  for (const YAML::Node& item : list) {
    if (!item.IsScalar() || item.Scalar().empty()) return Bad(path, item, kExpected);
    names.push_back(item.Scalar());
  }
  return names;
}

// Takes `value`, which stands under `key`.
absl::Status TakeKey(const YAML::Node& key, const YAML::Node& value, const std::string& path,
                     std::string& name, Exception& exception) {
  const std::string& word = key.Scalar();
  if (word == "templates") {
    MEMORYD_ASSIGN_OR_RETURN(exception.templates, ParseTemplates(value, path));
    return absl::OkStatus();
  }
  if (!value.IsScalar()) return Bad(path, key, fmt::format("{}: must be a single value", word));
  if (word == "name") {
    const absl::Status status = CheckId(word, value.Scalar(), kMaxTenant);
    if (!status.ok()) return Bad(path, value, std::string(status.message()));
    name = value.Scalar();
    return absl::OkStatus();
  }
  const auto* const known = std::ranges::find(kLimitKeys, word, &LimitKey::key);
  if (known == std::end(kLimitKeys)) return Bad(path, key, fmt::format("unknown key {}", word));
  const std::string error = known->parse(value.Scalar(), exception);
  if (!error.empty()) return Bad(path, value, fmt::format("{}: {}", word, error));
  return absl::OkStatus();
}

absl::StatusOr<std::pair<std::string, Exception>> ParseTenant(const YAML::Node& entry,
                                                              const std::string& path) {
  if (!entry.IsMap()) return Bad(path, entry, "must be a list of maps with name and limits");
  std::string name;
  Exception exception;
  std::set<std::string> keys;
  for (const auto& pair : entry) {
    if (!pair.first.IsScalar()) return Bad(path, pair.first, "a key must be a text");
    if (const std::string& key = pair.first.Scalar(); !keys.insert(key).second) {
      return Bad(path, pair.first, fmt::format("{}: is given twice", key));
    }
    MEMORYD_RETURN_IF_ERROR(TakeKey(pair.first, pair.second, path, name, exception));
  }
  if (!keys.contains("name")) return Bad(path, entry, "name: is missing");
  return std::pair(std::move(name), std::move(exception));
}

}  // namespace

RetentionSettings TenantLimits::retention() const {
  RetentionSettings settings;
  if (session_ttl_s > 0) settings.session_ttl_us = session_ttl_s * 1'000'000;
  if (refresh_on_read) settings.refresh_on_read = true;
  if (keep_messages > 0) settings.keep_messages = keep_messages;
  if (keep_bytes > 0) settings.keep_bytes = keep_bytes;
  if (message_ttl_s > 0) settings.message_ttl_us = message_ttl_s * 1'000'000;
  return settings;
}

TenantLimits TenantLimitTable::Of(std::string_view tenant) const {
  TenantLimits limits = usual;
  if (const auto found = exceptions.find(tenant); found != exceptions.end()) {
    const Exception& exception = found->second;
    limits.calls_per_second = exception.calls_per_second.value_or(limits.calls_per_second);
    limits.calls_in_flight = exception.calls_in_flight.value_or(limits.calls_in_flight);
    limits.watches = exception.watches.value_or(limits.watches);
    limits.sessions = exception.sessions.value_or(limits.sessions);
    limits.messages = exception.messages.value_or(limits.messages);
    limits.mib = exception.mib.value_or(limits.mib);
    limits.session_ttl_s = exception.session_ttl_s.value_or(limits.session_ttl_s);
    limits.refresh_on_read = exception.refresh_on_read.value_or(limits.refresh_on_read);
    limits.keep_messages = exception.keep_messages.value_or(limits.keep_messages);
    limits.keep_bytes = exception.keep_bytes.value_or(limits.keep_bytes);
    limits.message_ttl_s = exception.message_ttl_s.value_or(limits.message_ttl_s);
    limits.model_tokens_per_day =
        exception.model_tokens_per_day.value_or(limits.model_tokens_per_day);
    limits.model_calls_per_day = exception.model_calls_per_day.value_or(limits.model_calls_per_day);
    limits.default_template = exception.default_template.value_or(limits.default_template);
  }
  return limits;
}

std::string_view TenantLimitTable::DefaultTemplateOf(std::string_view tenant) const {
  const auto found = exceptions.find(tenant);
  return found != exceptions.end() && found->second.default_template.has_value()
             ? *found->second.default_template
             : usual.default_template;
}

bool TenantLimitTable::MayUseTemplate(std::string_view tenant, std::string_view name) const {
  const auto found = exceptions.find(tenant);
  if (found == exceptions.end() || !found->second.templates.has_value()) return true;
  const std::vector<std::string>& names = *found->second.templates;
  return std::find(names.begin(), names.end(), name) != names.end();
}

absl::StatusOr<std::map<std::string, TenantLimitTable::Exception, std::less<>>> ParseTenants(
    const YAML::Node& list, const std::string& path) {
  std::map<std::string, TenantLimitTable::Exception, std::less<>> tenants;
  if (list.IsNull()) return tenants;
  if (!list.IsSequence()) return Bad(path, list, "must be a list");
  for (const YAML::Node& entry : list) {
    MEMORYD_ASSIGN_OR_RETURN(auto tenant, ParseTenant(entry, path));
    if (!tenants.insert(std::move(tenant)).second) {
      return Bad(path, entry, "name: another entry has the same");
    }
  }
  return tenants;
}

}  // namespace memoryd
