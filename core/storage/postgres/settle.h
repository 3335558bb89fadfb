// What became of a batch whose answer was lost.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_SETTLE_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_SETTLE_H_

#include <span>

#include "core/storage/postgres/batch_writer.h"

namespace memoryd {

// Fills in the results of a batch that may or may not be stored, on a new connection, by
// `context.settle_deadline`.
//
// Running the batch again is safe, since its conditions hold at most once, and it waits for a twin
// still under way. If a session is lost then, the stored row says whether it was lost to the twin:
// by the commit tag or, if others have written since, by the first row that it appended. Only what
// is certain is reported as committed or lost, else kUnknown with what `first`, the answer that
// raised the doubt, said as its cause.
void Settle(const CommitContext& context, std::span<const PendingChange> batch,
            const BatchReply& first);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_SETTLE_H_
