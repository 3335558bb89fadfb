// Files of settings before yaml-cpp reads them.
#ifndef MEMORYD_SERVER_YAML_TEXT_H_
#define MEMORYD_SERVER_YAML_TEXT_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace memoryd {

// Whether all of it is UTF-8, as YAML asks; yaml-cpp would read other characters than were written.
bool IsUtf8(std::string_view text);

// The content of the file at `path` may be given to yaml-cpp. INVALID_ARGUMENT with one line that
// begins with `path` and the number of the first line that is not UTF-8.
absl::Status CheckYamlText(std::string_view yaml, const std::string& path);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_YAML_TEXT_H_
