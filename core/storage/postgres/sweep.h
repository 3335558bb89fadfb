// Deletes what nothing refers to any more.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_SWEEP_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_SWEEP_H_

#include <chrono>
#include <cstdint>

#include "absl/status/statusor.h"
#include "core/storage/postgres/query_connection.h"
#include "core/storage/store.h"

namespace memoryd {

// See Store::Purge. Every step deletes at most a few hundred rows in a transaction of its own and
// takes `step_timeout` at most. Several servers may sweep at once.
absl::StatusOr<std::int64_t> Sweep(QueryConnection& connection, const PurgeLimits& limits,
                                   std::chrono::milliseconds step_timeout);

// The same of Store::PurgeSession.
absl::StatusOr<SessionPurge> SweepSession(QueryConnection& connection, const SessionKey& key,
                                          std::int64_t max_rows,
                                          std::chrono::milliseconds step_timeout);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_SWEEP_H_
