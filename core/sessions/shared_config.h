#ifndef MEMORYD_CORE_SESSIONS_SHARED_CONFIG_H_
#define MEMORYD_CORE_SESSIONS_SHARED_CONFIG_H_

#include <memory>
#include <string_view>

#include "core/model/session_config.h"

namespace memoryd {

// `config` as one object for all sessions of this process that have it now: agents make many
// sessions alike. Its blocks have their traits, which are read once. `settings_json` is what it was
// resolved from, see SessionSettings::ToJson(). Any thread.
std::shared_ptr<const SessionConfig> SharedConfig(std::string_view settings_json,
                                                  SessionConfig config);

}  // namespace memoryd

#endif  // MEMORYD_CORE_SESSIONS_SHARED_CONFIG_H_
