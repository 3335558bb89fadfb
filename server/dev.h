// memoryd dev: a server to try things out.
#ifndef MEMORYD_SERVER_DEV_H_
#define MEMORYD_SERVER_DEV_H_

#include <string>
#include <vector>

#include "server/config.h"

namespace memoryd {

// All in memory, and on loopback alone: at port 50051 and, for metrics, 9464.
DevDefaults UsualDevDefaults();

// The same, but at the next ports that are free now.
DevDefaults FindDevDefaults();

// What to try next with a server of `config` that listens on `addresses`.
std::string DevGreeting(const Config& config, const std::vector<std::string>& addresses);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_DEV_H_
