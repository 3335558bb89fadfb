// The schema and its versions.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_MIGRATIONS_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_MIGRATIONS_H_

#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "core/storage/postgres/query_connection.h"

namespace memoryd {

// The advisory lock of whoever migrates. Arbitrary; nobody else's lock should have that number.
inline constexpr std::int64_t kMigrationLock = 0x6D656D6F72796401;

// Brings the schema up to date in one transaction; see Store::Migrate. One that is newer stays, if
// it says that this binary can work on it. UNAVAILABLE when another server's migration, or any
// other lock, has been in the way for `lock_timeout`, or when it takes a minute longer than that:
// nothing is changed then, and the caller may try again.
absl::Status MigrateSchema(QueryConnection& connection, std::chrono::milliseconds lock_timeout);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_MIGRATIONS_H_
