// Writes batches of items: finds out which can't be written, and makes the namespaces they need.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_ITEM_WRITER_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_ITEM_WRITER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/storage/item_store.h"
#include "core/storage/postgres/batch_writer.h"
#include "core/storage/postgres/query_connection.h"

namespace memoryd {

// A batch and where its result goes. Both are the caller's.
struct PendingItems {
  const ItemBatch* batch;
  ItemBatchResult* result;
};

// ItemStore::WriteItems: fills in every result. All in one statement, unless something stands
// against it; then what does is looked up, and the others are written again.
void WriteItemBatches(const CommitContext& context, std::vector<PendingItems> pending,
                      std::int64_t now_us);

// Runs what may be done twice: tried once more on another connection when its own is lost, and
// again, up to the deadline, after a deadlock or a wait for a lock that took too long.
absl::StatusOr<QueryResult> RunItemQuery(QueryPool& pool, PoolDropper& dropper, const Query& query,
                                         const std::vector<std::string>& parameters,
                                         Deadline deadline);

// The digest of a namespace's path as a parameter of the type bytea.
std::string DigestParameter(const NamespaceKey& key);

// The records of one namespace's request_ids, which are replicated wherever they must be.
absl::StatusOr<std::vector<std::optional<ItemRequestRecord>>> ReadItemRequests(
    const CommitContext& context, const NamespaceKey& key,
    std::span<const std::string> request_ids);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_ITEM_WRITER_H_
