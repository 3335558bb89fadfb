// Builds, runs and drains a server.
#ifndef MEMORYD_SERVER_SERVER_H_
#define MEMORYD_SERVER_SERVER_H_

#include <csignal>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "server/announcement.h"
#include "server/config.h"
#include "server/ops/log.h"
#include "server/start_watch.h"

namespace memoryd {

// What ends a server. Every thread must have blocked them.
struct StopSignals {
  sigset_t drain;    // The first of these begins the drain.
  sigset_t at_once;  // During the drain these do what they do by default: end the process.
};

// Opens and migrates the store. Waits for a store that can't be reached, until one of `stop` is
// pending: CANCELLED. `start` learns what it is at.
absl::StatusOr<std::unique_ptr<Store>> OpenMigratedStore(const Config& config, const sigset_t& stop,
                                                         StartWatch& start);

// What the command line says now, when the file may say something else than before.
using ReadAgain = std::function<absl::StatusOr<CommandLine>()>;

// Called once all listen.
using OnStarted = std::function<void(const Listening& listening)>;

// Serves until one of `stop`, then drains: health NOT_SERVING, no new calls, those under way end
// within `drain_seconds`. At each SIGHUP that is none of `stop` what `read_again` gives comes into
// force as far as it can; that too every thread must have blocked. `start` learns what the start is
// at.
absl::Status Serve(const CommandLine& line, const ReadAgain& read_again, const StopSignals& stop,
                   Log& log, StartWatch& start, const OnStarted& on_started);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_SERVER_H_
