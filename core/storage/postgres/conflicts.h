// Which changes of a batch that was rolled back have lost.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_CONFLICTS_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_CONFLICTS_H_

#include <optional>
#include <span>
#include <vector>

#include "core/storage/postgres/batch_writer.h"

namespace memoryd {

// The outcome for the change that caused the error; nullopt when it was no conflict.
std::optional<CommitOutcome> ConflictOutcome(const BatchReply& reply);

// For each change whether it has lost in the way of `conflict`, by what is stored now. All false
// when the store can't tell.
std::vector<bool> FindLosers(const CommitContext& context, std::span<const PendingChange> batch,
                             CommitOutcome conflict);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_CONFLICTS_H_
