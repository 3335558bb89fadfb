// The store of a server, opened and brought up to date.
#ifndef MEMORYD_SERVER_MIGRATED_STORE_H_
#define MEMORYD_SERVER_MIGRATED_STORE_H_

#include <csignal>
#include <memory>

#include "absl/status/statusor.h"
#include "core/storage/store.h"
#include "server/config.h"
#include "server/start_watch.h"

namespace memoryd {

// Opens and migrates the store. Waits for a store that can't be reached, until one of `stop` is
// pending: CANCELLED. Every thread must have blocked these. `start` learns what it is at.
absl::StatusOr<std::unique_ptr<Store>> OpenMigratedStore(const Config& config, const sigset_t& stop,
                                                         StartWatch& start);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_MIGRATED_STORE_H_
