// What other machines reach, as the settings say.
#ifndef MEMORYD_SERVER_EXPOSURE_H_
#define MEMORYD_SERVER_EXPOSURE_H_

#include <string>
#include <vector>

#include "server/config.h"

namespace memoryd {

// A line for each thing that guards no listener of a setting, where other machines reach it: not
// one on loopback or on a UNIX socket. Each begins with the setting and names the addresses.
std::vector<std::string> UnguardedListeners(const Config& config);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_EXPOSURE_H_
