// Whether there is anything at an address.
#ifndef MEMORYD_CLI_LISTENER_H_
#define MEMORYD_CLI_LISTENER_H_

#include <string>

namespace memoryd::cli {

// Whether this machine, or the one at `target`, says that nothing listens there: HOST:PORT or
// unix:PATH. False where it can't be told, such as for a name that leads nowhere. Takes a second at
// most, but for what the name takes.
bool NothingListens(const std::string& target);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_LISTENER_H_
