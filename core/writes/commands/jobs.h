// Commands about jobs that feed blocks, and about the models that do their work.
#ifndef MEMORYD_CORE_WRITES_COMMANDS_JOBS_H_
#define MEMORYD_CORE_WRITES_COMMANDS_JOBS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/blocks/block.h"
#include "core/blocks/embedding_state.h"
#include "core/model/job.h"
#include "core/model/session.h"
#include "core/writes/command_traits.h"

namespace memoryd {

// The end of a job: what it changes.
struct JobOutcome {
  JobKey job;
  JobState state = JobState::kDone;
  std::string error;  // Of a job that failed.
  Usage usage;        // Of this attempt.
  // Of a job that is done: the state that it was fed in, null for none, and the one afterwards.
  std::shared_ptr<const BlockState> fed;
  std::string block_state;
  // The session's when the messages it was fed with were read.
  std::int64_t read_revision = 0;
  // Rows to be appended to the block's own, see FeedResult.
  std::vector<std::string> entries;
  std::vector<std::int64_t> entry_positions;
  std::vector<EntryMessages> entry_messages = {};
  // Of a job that embeds entries anew: it has come to those before this number.
  std::int64_t entries_to = 0;
};

namespace commands {

// Nothing is done unless the job is the next one of its block. A model has been paid for what it
// found out, and jobs are bounded by themselves.
struct EndJob {
  static constexpr CommandTraits kTraits{.is_forced = true,
                                         .renews = CommandTraits::Renews::kNothing};

  JobOutcome outcome;
};

// Makes a job for the messages of one that has failed.
struct RetryJob {
  static constexpr CommandTraits kTraits{};

  Job failed;
};

// Stores what models have taken for the session, which every commit does.
struct StoreUsage {
  static constexpr CommandTraits kTraits{.is_forced = true,
                                         .renews = CommandTraits::Renews::kNothing};
};

// Tells what answers for the session's embedder. If that is not what made the session's embeddings,
// they are made anew.
struct NoteEmbedder {
  static constexpr CommandTraits kTraits{.renews = CommandTraits::Renews::kNothing};

  EmbeddingSource source;
};

}  // namespace commands
}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_COMMANDS_JOBS_H_
