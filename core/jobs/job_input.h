// What a job reads before its block is fed.
#ifndef MEMORYD_CORE_JOBS_JOB_INPUT_H_
#define MEMORYD_CORE_JOBS_JOB_INPUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/blocks/block.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/storage/store.h"

namespace memoryd {

// Whether the job has a session's messages embedded.
bool EmbedsMessages(const JobKey& job);
// Whether the job makes embeddings that are to take the place of others: to give it up would leave
// a session that has all of them with fewer. False where nothing was fed.
bool EmbedsAnew(const BlockState* fed, const Job& job);

// Reads on the thread that calls; thread-safe. What it is given outlives it.
class JobInput {
 public:
  struct Options {
    Store* store = nullptr;
    const BodyReader* bodies = nullptr;
    MemoryBudget* memory = nullptr;
    // The most bytes that the messages of one job may have.
    std::int64_t max_message_bytes = std::int64_t{96} << 20;
  };
  struct Input {
    std::vector<BlockMessage> messages;
    // Entries to be re-embedded; the job then has no messages.
    std::vector<MessagePtr> entries;
    // Of entries: one behind the last; where there are none, behind all that the job was made for.
    // 0: the job is of messages.
    std::int64_t entries_to = 0;
    // For what is read, and for what the block makes of it.
    MemoryBudget::Hold memory = {};

    // What the job was made for was deleted, or was embedded by another job.
    bool empty() const { return messages.empty() && entries.empty(); }
  };

  explicit JobInput(const Options& options) : options_(options) {}

  // What the block in state `fed` is to be fed. RESOURCE_EXHAUSTED `MEMORY_SHORT`: for now there is
  // no memory for it; `JOB_TOO_LARGE`: there will never be.
  absl::StatusOr<Input> Read(const Job& job, const BlockState& fed) const;

 private:
  absl::StatusOr<MemoryBudget::Hold> TakeMemory(const Job& job, bool of_entries) const;
  absl::StatusOr<std::vector<BlockMessage>> ReadMessages(const Job& job) const;
  // Fewer with each attempt, so that in the end only the text that a model refuses is left out.
  absl::Status ReadEntries(const BlockState& fed, const Job& job, Input& input) const;
  absl::StatusOr<std::int64_t> BytesOfMessages(const Job& job, std::int64_t most) const;

  const Options options_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_JOBS_JOB_INPUT_H_
