#include "core/storage/job_order.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/model/job.h"
#include "core/storage/store.h"

namespace memoryd {

bool IsReady(const SessionChange& change, const Job& job) {
  const auto block = std::find_if(change.blocks.begin(), change.blocks.end(),
                                  [&](const BlockState& b) { return b.name == job.key.block; });
  return block == change.blocks.end() || block->done + 1 == job.key.number;
}

std::vector<BlockJob> JobsToMark(const SessionChange& change) {
  std::vector<BlockJob> marked;
  const std::uint64_t generation = change.row.block_generation;
  if (change.cancel_jobs_of == generation) return marked;
  for (const BlockState& block : change.blocks) {
    const std::int64_t first = block.done + 1;
    if (first >= block.next) continue;
    const bool is_new = std::any_of(change.jobs.begin(), change.jobs.end(), [&](const Job& job) {
      return job.key.number == first && job.key.block == block.name;
    });
    const bool ends =
        std::any_of(change.ended_jobs.begin(), change.ended_jobs.end(), [&](const JobEnd& end) {
          return end.key.number == first && end.key.block == block.name &&
                 end.key.generation == generation;
        });
    if (!is_new && !ends) marked.push_back({&block.name, first});
  }
  return marked;
}

}  // namespace memoryd
