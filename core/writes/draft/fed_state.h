// Whether what a job found out still fits the block's state.
#ifndef MEMORYD_CORE_WRITES_DRAFT_FED_STATE_H_
#define MEMORYD_CORE_WRITES_DRAFT_FED_STATE_H_

#include <optional>
#include <vector>

#include "core/blocks/entry_log.h"
#include "core/model/job.h"
#include "core/model/session_config.h"
#include "core/writes/write.h"

namespace memoryd {

// Whether a job's entries are those of EmbeddingState::next.
bool EmbedsEntries(const JobOutcome& outcome, const BlockState& state);

// Whether the job was fed in the state that its block has now, but for what has become of entries.
// `settings` is null for a block that the session does not have.
bool IsFedState(const JobOutcome& outcome, const BlockState& state, const BlockSettings* settings);

// Numbers of entries that have been taken out since the job was fed; nullopt: it is not known of
// all.
std::optional<std::vector<NumberRange>> RemovedSince(const JobOutcome& outcome,
                                                     const BlockState& state);

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_DRAFT_FED_STATE_H_
