// Deleting what nothing refers to any more.
#ifndef MEMORYD_CORE_STORAGE_SQLITE_SQLITE_PURGE_H_
#define MEMORYD_CORE_STORAGE_SQLITE_SQLITE_PURGE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/storage/sqlite/database.h"
#include "core/storage/store.h"

namespace memoryd::sqlite {

// One small transaction of Store::Purge: deletes some rows, at most limits.max_rows, and returns
// how many; 0 when nothing is left. Short, so that commits need not wait long for their turn.
absl::StatusOr<std::int64_t> PurgeStep(Database& db, const PurgeLimits& limits);

// The same of Store::PurgeSession.
absl::StatusOr<std::int64_t> PurgeSessionStep(Database& db, const SessionKey& key,
                                              std::int64_t max_rows);

// Store::TouchSessions.
absl::Status TouchSessions(Database& db, std::span<const SessionTouch> touches);

absl::StatusOr<std::vector<std::string>> ListGarbage(Database& db, std::string_view tenant,
                                                     std::string_view after,
                                                     std::int64_t max_sessions);

}  // namespace memoryd::sqlite

#endif  // MEMORYD_CORE_STORAGE_SQLITE_SQLITE_PURGE_H_
