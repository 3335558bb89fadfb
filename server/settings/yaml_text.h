// Files of settings, read by yaml-cpp.
#ifndef MEMORYD_SERVER_SETTINGS_YAML_TEXT_H_
#define MEMORYD_SERVER_SETTINGS_YAML_TEXT_H_

#include <yaml-cpp/yaml.h>

#include <string>

#include "absl/status/statusor.h"

namespace memoryd {

// The one document of the file at `path`; a null node for an empty file. INVALID_ARGUMENT with one
// line that begins with `path` for text that is not UTF-8, not YAML or nested too deeply, and for a
// second document, which would else be ignored. Nothing is thrown.
absl::StatusOr<YAML::Node> LoadYaml(const std::string& yaml, const std::string& path);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_SETTINGS_YAML_TEXT_H_
