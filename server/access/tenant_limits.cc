#include "server/access/tenant_limits.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
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

constexpr std::string_view kTemplates = "templates";

absl::StatusOr<std::pair<std::string, TenantLimitTable::Exception>> ParseTenant(
    const YAML::Node& entry, const std::string& path) {
  if (!entry.IsMap()) return Bad(path, entry, "must be a list of maps with name and limits");
  std::string name;
  TenantLimitTable::Exception exception;
  std::set<std::string> keys;
  for (const auto& pair : entry) {
    if (!pair.first.IsScalar()) return Bad(path, pair.first, "a key must be a text");
    const std::string& key = pair.first.Scalar();
    if (!keys.insert(key).second) {
      return Bad(path, pair.first, fmt::format("{}: is given twice", key));
    }
    if (key == kTemplates) {
      if (!pair.second.IsSequence()) {
        return Bad(path, pair.second, fmt::format("{}: must be a list of names", key));
      }
      exception.templates.emplace();
      for (const YAML::Node& item : pair.second) {
        if (!item.IsScalar() || item.Scalar().empty()) {
          return Bad(path, item, fmt::format("{}: must be a list of names", key));
        }
        exception.templates->push_back(item.Scalar());
      }
      continue;
    }
    if (!pair.second.IsScalar()) {
      return Bad(path, pair.first, fmt::format("{}: must be a single value", key));
    }
    const std::string& value = pair.second.Scalar();
    std::string error;
    if (key == "name") {
      const absl::Status status = CheckId(key, value, kMaxTenant);
      if (!status.ok()) return Bad(path, pair.second, std::string(status.message()));
      name = value;
    } else if (key == "calls_per_second") {
      error = ParseInt(value, 0, kMaxTenantLimit, exception.calls_per_second.emplace());
    } else if (key == "calls_in_flight") {
      error = ParseInt(value, 0, kMaxTenantLimit, exception.calls_in_flight.emplace());
    } else if (key == "sessions") {
      error = ParseInt(value, std::int64_t{0}, kMaxTenantQuota, exception.sessions.emplace());
    } else if (key == "messages") {
      error = ParseInt(value, std::int64_t{0}, kMaxTenantQuota, exception.messages.emplace());
    } else if (key == "mib") {
      error = ParseInt(value, std::int64_t{0}, kMaxTenantQuota, exception.mib.emplace());
    } else if (key == "session_ttl_s") {
      error = ParseInt(value, std::int64_t{0}, kMaxTtlSeconds, exception.session_ttl_s.emplace());
    } else if (key == "refresh_on_read") {
      error = ParseBool(value, exception.refresh_on_read.emplace());
    } else if (key == "keep_messages") {
      error = ParseInt(value, std::int64_t{0}, kMaxTenantQuota, exception.keep_messages.emplace());
    } else if (key == "keep_bytes") {
      error = ParseInt(value, std::int64_t{0}, kMaxTenantQuota, exception.keep_bytes.emplace());
    } else if (key == "message_ttl_s") {
      error = ParseInt(value, std::int64_t{0}, kMaxTtlSeconds, exception.message_ttl_s.emplace());
    } else if (key == "model_tokens_per_day") {
      error = ParseInt(value, std::int64_t{0}, kMaxTenantQuota,
                       exception.model_tokens_per_day.emplace());
    } else if (key == "model_calls_per_day") {
      error = ParseInt(value, std::int64_t{0}, kMaxTenantQuota,
                       exception.model_calls_per_day.emplace());
    } else if (key == "default_template") {
      exception.default_template = value;
    } else {
      return Bad(path, pair.first, fmt::format("unknown key {}", key));
    }
    if (!error.empty()) return Bad(path, pair.second, fmt::format("{}: {}", key, error));
  }
  if (!keys.contains("name")) return Bad(path, entry, "name: is missing");
  return std::pair(std::move(name), exception);
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
