#include "server/config_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/secret_file.h"
#include "core/base/status_macros.h"
#include "core/llm/model_settings.h"
#include "server/access/session_templates.h"
#include "server/access/tenant_limits.h"
#include "server/config.h"
#include "server/printed_settings.h"
#include "server/setting_table.h"
#include "server/settings/model_config.h"
#include "server/settings/setting_value.h"
#include "server/settings/yaml_text.h"

namespace memoryd {
namespace {

// For a file that holds a secret under `key`.
absl::Status CheckSecrecy(const FileContent& content, std::string_view key) {
  if (content.secrecy.ok()) return absl::OkStatus();
  return InvalidSetting(
      fmt::format("{} ({} holds a secret)", std::string(content.secrecy.message()), key));
}

// Reads what is not one value. False where `name` is no such setting.
absl::StatusOr<bool> ReadList(const std::string& name, const YAML::Node& list,
                              const FileContent& content, const std::string& path, Config& config,
                              std::map<std::string, std::string>& lists) {
  if (name == kModelsKey) {
    MEMORYD_ASSIGN_OR_RETURN(config.models, ParseModels(list, path));
    for (const ModelSettings& model : config.models) {
      if (MayHoldSecret(model)) MEMORYD_RETURN_IF_ERROR(CheckSecrecy(content, name));
    }
    lists[name] = PrintedList(kModelsKey, MaskedModels(list), path);
    return true;
  }
  if (name == kTenantsKey) {
    MEMORYD_ASSIGN_OR_RETURN(config.tenants.exceptions, ParseTenants(list, path));
  } else if (name == kTemplatesKey) {
    MEMORYD_ASSIGN_OR_RETURN(config.template_sources, ParseTemplates(list, path));
  } else {
    return false;
  }
  lists[name] = PrintedList(name, list, path);
  return true;
}

}  // namespace

absl::Status ReadConfigFile(const std::string& path, std::vector<SettingValue>& values,
                            Config& config, std::map<std::string, std::string>& lists) {
  const std::span<const Setting> table = SettingTable();
  try {
    const absl::StatusOr<FileContent> content = ReadAnyFile(path);
    if (!content.ok()) return InvalidSetting(std::string(content.status().message()));
    MEMORYD_ASSIGN_OR_RETURN(const YAML::Node root, LoadYaml(content->text, path));
    if (root.IsNull()) return absl::OkStatus();
    if (!root.IsMap()) return InvalidSetting(fmt::format("{}: must be a map of settings", path));
    std::set<std::string> names;
    for (const auto& entry : root) {
      const auto name = entry.first.as<std::string>();
      if (!names.insert(name).second) {
        return InvalidSetting(fmt::format("{}: {}: is given twice", path, name));
      }
      MEMORYD_ASSIGN_OR_RETURN(const bool is_list,
                               ReadList(name, entry.second, *content, path, config, lists));
      if (is_list) continue;
      const auto setting = std::ranges::find(table, name, &Setting::name);
      if (setting == table.end()) {
        return InvalidSetting(fmt::format("{}: unknown key {}", path, name));
      }
      if (!entry.second.IsScalar()) {
        return InvalidSetting(fmt::format("{}: {}: must be a single value", path, name));
      }
      SettingValue& value = values[static_cast<std::size_t>(setting - table.begin())];
      value = {entry.second.as<std::string>(), path};
      if (Shown(name, value.text) != value.text) {
        MEMORYD_RETURN_IF_ERROR(CheckSecrecy(*content, name));
      }
    }
  } catch (const YAML::Exception& error) {
    return InvalidSetting(fmt::format("{}: can't be read as YAML: {}", path, error.what()));
  }
  return absl::OkStatus();
}

}  // namespace memoryd
