// The tables, and how an older or empty file gets them.
#ifndef MEMORYD_CORE_STORAGE_SQLITE_SCHEMA_H_
#define MEMORYD_CORE_STORAGE_SQLITE_SCHEMA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/storage/sqlite/database.h"

namespace memoryd::sqlite {

// Brings the schema up to date in one transaction. FAILED_PRECONDITION when it is newer than this
// binary and does not say that this can work on it, or the file belongs to another program.
absl::Status MigrateSchema(Database& db);

// The version of the schema in the file.
absl::StatusOr<std::int64_t> SchemaVersion(Database& db);

}  // namespace memoryd::sqlite

#endif  // MEMORYD_CORE_STORAGE_SQLITE_SCHEMA_H_
