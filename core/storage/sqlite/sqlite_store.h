// A store in one SQLite file, for one process.
#ifndef MEMORYD_CORE_STORAGE_SQLITE_SQLITE_STORE_H_
#define MEMORYD_CORE_STORAGE_SQLITE_SQLITE_STORE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/storage/sqlite/sqlite_url.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"

namespace memoryd {

// Opens the file that `options.url` names (sqlite_url.h), or a store in memory, which is gone when
// it is closed. FAILED_PRECONDITION for a URL that earlier versions took for another file, where
// that one is there and the one that it names now is not.
//
// Always exclusive, whatever options.coherence says: a second process gets FAILED_PRECONDITION. A
// committed batch survives power loss (write-ahead log, synchronous=FULL). One connection writes,
// options.readers read beside it; in memory there is a single connection for both. A file on a
// network file system is not supported: its locks and shared memory can't be relied on.
//
// A file that was not closed in order is checked if it is small enough to delay the start by a
// second or so: DATA_LOSS when it is damaged. A larger one is left to
// `sqlite3 FILE 'PRAGMA integrity_check'`; SQLite's own recovery needs no check.
absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(const StoreOptions& options);

inline constexpr StoreKind kSqliteStore = {
    .scheme = "sqlite",
    .alias = "",
    .example = "sqlite:PATH for a file",
    .url_is_path = true,
    .parse = &ParseSqliteUrl,
    .open = &OpenSqliteStore,
    .default_coherence = Coherence::kExclusive,
    .commits_at_once = false,
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_SQLITE_SQLITE_STORE_H_
