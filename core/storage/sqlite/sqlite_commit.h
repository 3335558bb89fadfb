// Writing a batch of session changes.
#ifndef MEMORYD_CORE_STORAGE_SQLITE_SQLITE_COMMIT_H_
#define MEMORYD_CORE_STORAGE_SQLITE_SQLITE_COMMIT_H_

#include <span>
#include <vector>

#include "core/storage/sqlite/database.h"
#include "core/storage/store.h"

namespace memoryd::sqlite {

// Store::Commit in one transaction. An error of the file (full, I/O) fails the whole batch, an
// error of a change that change alone.
std::vector<CommitResult> CommitChanges(Database& db, std::span<const SessionChange> changes);

}  // namespace memoryd::sqlite

#endif  // MEMORYD_CORE_STORAGE_SQLITE_SQLITE_COMMIT_H_
