// Writing the rows of one session change.
#ifndef MEMORYD_CORE_STORAGE_SQLITE_SQLITE_CHANGE_H_
#define MEMORYD_CORE_STORAGE_SQLITE_SQLITE_CHANGE_H_

#include "core/storage/sqlite/database.h"
#include "core/storage/store.h"

namespace memoryd::sqlite {

// Writes into the open transaction, table by table. The first code other than SQLITE_OK ends it,
// with some rows written, and is returned. `outcome` is what that code means; for a lost revision
// it is kRevisionLost, with SQLITE_OK and nothing written.
int WriteChange(Database& db, const SessionChange& change, CommitOutcome& outcome);

}  // namespace memoryd::sqlite

#endif  // MEMORYD_CORE_STORAGE_SQLITE_SQLITE_CHANGE_H_
