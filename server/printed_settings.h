// Settings as the operator sees them: --print-config and docs/SETTINGS.md.
#ifndef MEMORYD_SERVER_PRINTED_SETTINGS_H_
#define MEMORYD_SERVER_PRINTED_SETTINGS_H_

#include <string>
#include <string_view>
#include <vector>

namespace YAML {
class Node;
}  // namespace YAML

namespace memoryd {

// A value and where it stands, for error lines and --print-config.
struct SettingValue {
  std::string text;
  std::string origin;
};

// A setting as it may be printed: without secrets.
std::string Shown(std::string_view name, const std::string& text);

// A list of the file, which is at `path`, as --print-config shows it.
std::string PrintedList(std::string_view key, const YAML::Node& list, std::string_view path);

// All settings as --print-config shows them; `values` are those of SettingTable().
std::string PrintedSettings(const std::vector<SettingValue>& values);

// docs/SETTINGS.md, but its introduction.
std::string SettingsReference();

}  // namespace memoryd

#endif  // MEMORYD_SERVER_PRINTED_SETTINGS_H_
