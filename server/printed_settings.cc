#include "server/printed_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/access/session_templates.h"
#include "server/access/tenant_limits.h"
#include "server/config.h"
#include "server/setting_table.h"
#include "server/settings/masked_url.h"
#include "server/settings/model_config.h"
#include "server/settings/reference.h"

namespace memoryd {

std::string Shown(std::string_view name, const std::string& text) {
  if (name == "store") return MaskedStore(text);
  return name == "otlp_endpoint" ? MaskedEndpoint(text) : text;
}

std::string PrintedList(std::string_view key, const YAML::Node& list, std::string_view path) {
  std::string text = fmt::format("{}:  # {}\n  ", key, path);
  for (const char c : YAML::Dump(list)) {
    text += c;
    if (c == '\n') text += "  ";
  }
  return text + "\n";
}

std::string PrintedSettings(const std::vector<SettingValue>& values) {
  const std::span<const Setting> table = SettingTable();
  std::string text;
  for (std::size_t i = 0; i < table.size(); ++i) {
    YAML::Emitter scalar;
    scalar << Shown(table[i].name, values[i].text);
    text += fmt::format("{}: {}  # {}\n", table[i].name, scalar.c_str(), values[i].origin);
  }
  return text;
}

std::string SettingsReference() {
  std::string text(kReferenceHead);
  std::vector<std::string> of_tenants;
  for (const Setting& setting : SettingTable()) {
    const std::string default_value = setting.default_text.empty()
                                          ? AsCode(setting.default_value())
                                          : std::string(setting.default_text);
    const auto set = [&setting](const std::string& value) {
      Config scratch;
      return setting.set(scratch, value);
    };
    text += ReferenceRow({AsCode(setting.name), default_value, AllowedValues(setting.name, set),
                          fmt::format("{} {}", setting.help, setting.more)});
    if (setting.name.starts_with(kTenantPrefix)) {
      of_tenants.push_back(AsCode(setting.name.substr(kTenantPrefix.size())));
    }
  }
  text += fmt::format(
      "\n## `{}`\n\n[A list](MODELS.md#models), only in the file. The keys of each model:\n\n{}",
      kModelsKey, ModelReference());
  text += fmt::format(
      "\n## `{}`\n\n[A list](TENANTS.md#tenants-beside-one-another) of tenants with limits of "
      "their own, only in the file. A tenant has a\n`name` and any of these keys, which replace "
      "the settings `{}…` for this tenant:\n{}.\n`templates` lists the templates that the tenant "
      "may use. Absent: all.\n",
      kTenantsKey, kTenantPrefix, fmt::join(of_tenants, ", "));
  text += fmt::format(
      "\n## `{}`\n\n[A map](TENANTS.md#templates-of-sessions) from names to configurations, "
      "only in the file. The keys of each are the\nfields of `memoryd.v1.SessionConfig` in "
      "[memory.proto](../proto/memoryd/v1/memory.proto).\n",
      kTemplatesKey);
  return text;
}

}  // namespace memoryd
