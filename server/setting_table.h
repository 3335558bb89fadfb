// The settings that are single values: the keys of the file, flags and variables.
#ifndef MEMORYD_SERVER_SETTING_TABLE_H_
#define MEMORYD_SERVER_SETTING_TABLE_H_

#include <span>
#include <string>
#include <string_view>

#include "server/config.h"

namespace memoryd {

// One key of the file; the flag and the variable are derived from its name.
struct Setting {
  std::string_view name;
  std::string_view help;
  std::string (*default_value)();
  // An error message, or empty.
  std::string (*set)(Config& config, const std::string& value);
  // What the reference says behind `help`, in Markdown.
  std::string_view more = {};
  // What the reference has for a default that depends on the machine, in Markdown.
  std::string_view default_text = {};
};

// Settings of this prefix hold for each tenant, and may be otherwise for some in `tenants`.
inline constexpr std::string_view kTenantPrefix = "tenant_";

// All of them, in the order of `--help` and docs/SETTINGS.md. A value may depend on those that
// stand before it.
std::span<const Setting> SettingTable();

// The file that `word_vectors` names unless it is set; a release may come without it.
std::string DefaultWordVectors();

// `--cache-mib`, `MEMORYD_CACHE_MIB`.
std::string FlagOf(const Setting& setting);
std::string VariableOf(const Setting& setting);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_SETTING_TABLE_H_
