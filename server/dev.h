// memoryd dev: a server to try things out.
#ifndef MEMORYD_SERVER_DEV_H_
#define MEMORYD_SERVER_DEV_H_

#include <string>

#include "server/announcement.h"
#include "server/command_line.h"

namespace memoryd {

// All in memory, and on loopback alone: at port 50051, for HTTP at 50080 and for metrics at 9464.
DevDefaults UsualDevDefaults();

// The same, but at the next ports that are free now.
DevDefaults FindDevDefaults();

// What to try next with a server of `config`, for whoever sits before it.
std::string DevGreeting(const Config& config, const Listening& listening);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_DEV_H_
