// Writes session changes: batches them, finds out who lost, retries the others.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_BATCH_WRITER_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_BATCH_WRITER_H_

#include <span>
#include <vector>

#include "core/storage/postgres/batch_connection.h"
#include "core/storage/postgres/connection_pool.h"
#include "core/storage/postgres/query_connection.h"
#include "core/storage/store.h"

namespace memoryd {

using BatchPool = ConnectionPool<BatchConnection>;
using QueryPool = ConnectionPool<QueryConnection>;

// A change and where its result goes. Both are the caller's.
struct PendingChange {
  const SessionChange* change;
  CommitResult* result;
};

// Drops the connections of every pool to a server that is no longer the primary.
class PoolDropper {
 public:
  virtual ~PoolDropper() = default;
  virtual void DropConnections() = 0;
};

// One use of a store: what a single Commit call shares.
struct CommitContext {
  BatchPool& writers;
  QueryPool& readers;
  PoolDropper& dropper;
  // Statements end by the first, doubts that they left by the second.
  Deadline write_deadline;
  Deadline settle_deadline;
};

// Fills in every result. The changes have different keys, in any order.
void WriteChanges(const CommitContext& context, std::vector<PendingChange> pending);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_BATCH_WRITER_H_
