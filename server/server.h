// Builds, runs and drains a server.
#ifndef MEMORYD_SERVER_SERVER_H_
#define MEMORYD_SERVER_SERVER_H_

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/config.h"
#include "server/log.h"

namespace memoryd {

// Opens and migrates the store. Waits for a store that can't be reached, until one of `stop` is
// pending: CANCELLED.
absl::StatusOr<std::unique_ptr<Store>> OpenMigratedStore(const Config& config,
                                                         const sigset_t& stop);

// What the command line says now, when the file may say something else than before.
using ReadAgain = std::function<absl::StatusOr<CommandLine>()>;

// What is told once all listen, such as to whoever sits before it: the addresses of `listen`.
using Started = std::function<void(const std::vector<std::string>& addresses)>;

// Serves until one of the signals in `stop`, then drains: health NOT_SERVING, no new calls, those
// under way end within `drain_seconds`. At each SIGHUP what `read_again` gives comes into force as
// far as it can. Every thread must have blocked these signals. Prints `listening on ADDRESS` on
// standard output for each address, before that `metrics on ADDRESS`; then calls `started`, if any.
absl::Status Serve(const CommandLine& line, const ReadAgain& read_again, const sigset_t& stop,
                   Log& log, const Started& started = nullptr);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_SERVER_H_
