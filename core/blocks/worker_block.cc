#include "core/blocks/worker_block.h"

#include <utility>

#include "core/base/error.h"
#include "core/blocks/block_knowledge.h"

namespace memoryd {

WorkerBlock::WorkerBlock(const BlockSettings& settings, WorkerBlocks* workers)
    : Block(settings),
      at_{settings.worker, settings.name, settings.options_json},
      feeds_(settings.TakesMessages()),
      workers_(workers) {}

void WorkerBlock::Feed(FeedRequest request, Done<FeedResult> done) const {
  workers_->Put(at_, std::move(request), std::move(done));
}

void WorkerBlock::Render(RenderRequest request, Done<BlockContent> done) const {
  workers_->Get(at_, std::move(request), std::move(done));
}

absl::StatusOr<BlockKnowledge> WorkerBlock::Known(const BlockState& state) const {
  return BlockKnowledge{WorkerState{state.state}};
}

void WorkerBlock::Truncate(const BlockSession& session, BlockContent content, std::int64_t tokens,
                           const TokenCounter& /*counter*/, BlockDeadline deadline,
                           Done<BlockContent> done) const {
  workers_->Truncate(at_, session, std::move(content), tokens, deadline, std::move(done));
}

absl::StatusOr<std::shared_ptr<const Block>> MakeWorkerBlock(const BlockSettings& settings,
                                                             const std::string& field,
                                                             Profile /*profile*/,
                                                             const BlockEnvironment& environment) {
  if (settings.worker.empty()) {
    return InvalidField(field + ".worker", "is required for kind `worker`");
  }
  return std::make_shared<const WorkerBlock>(settings, environment.workers);
}

}  // namespace memoryd
