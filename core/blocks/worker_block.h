// The block kind `worker`: a custom block in the agent's own process.
#ifndef MEMORYD_CORE_BLOCKS_WORKER_BLOCK_H_
#define MEMORYD_CORE_BLOCKS_WORKER_BLOCK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/blocks/block.h"
#include "core/blocks/block_traits.h"
#include "core/blocks/worker_blocks.h"

namespace memoryd {

// The state is what the worker returns, opaque here.
class WorkerBlock final : public Block {
 public:
  // `workers` and `models` outlive the block; null only where the block is never asked.
  WorkerBlock(const BlockSettings& settings, std::shared_ptr<const BlockTraits> traits,
              WorkerBlocks* workers, ModelDirectory* models);

  void Feed(FeedRequest request, Done<FeedResult> done) const override;
  void Render(RenderRequest request, Done<BlockContent> done) const override;
  absl::StatusOr<BlockKnowledge> Known(const BlockState& state) const override;
  void Truncate(const BlockSession& session, BlockContent content, std::int64_t tokens,
                const TokenCounter& counter, BlockDeadline deadline,
                Done<BlockContent> done) const override;

 private:
  // `done`, having counted what the worker says that its models took for the request.
  template <typename Request, typename T>
  Done<T> Counted(const std::string& job_id, Request& request, Done<T> done) const;

  const WorkerBlockName at_;
  WorkerBlocks* const workers_;
  ModelDirectory* const models_;  // Is told what the worker's models took.
};

// The block of this name at the worker of the settings. Options are the worker's business, but for
// `accept_short_term_memory`.
std::shared_ptr<const BlockTraits> ReadWorkerTraits(const BlockSettings& settings,
                                                    const std::string& field, Profile profile);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_WORKER_BLOCK_H_
