// The file of settings.
#ifndef MEMORYD_SERVER_CONFIG_FILE_H_
#define MEMORYD_SERVER_CONFIG_FILE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/config.h"
#include "server/printed_settings.h"

namespace memoryd {

// Reads the YAML file at `path`: single values into `values`, as SettingTable() has them, and the
// lists `models`, `tenants` and `templates` into `config`. `lists` is set to what --print-config
// shows of the lists, by name. INVALID_ARGUMENT with one line that names `path` and the key. A file
// that holds a secret is refused when others than its owner and group may read it.
absl::Status ReadConfigFile(const std::string& path, std::vector<SettingValue>& values,
                            Config& config, std::map<std::string, std::string>& lists);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_CONFIG_FILE_H_
