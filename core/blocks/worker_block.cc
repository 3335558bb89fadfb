#include "core/blocks/worker_block.h"

#include <utility>

#include "core/base/error.h"
#include "core/blocks/block_knowledge.h"
#include "core/blocks/model_calls.h"

namespace memoryd {

WorkerBlock::WorkerBlock(const BlockSettings& settings, WorkerBlocks* workers,
                         ModelDirectory* models)
    : Block(settings),
      at_{settings.worker, settings.name, settings.options_json},
      feeds_(settings.TakesMessages()),
      workers_(workers),
      models_(models) {}

template <typename Request, typename T>
Block::Done<T> WorkerBlock::Counted(const std::string& job_id, Request& request,
                                    Done<T> done) const {
  const auto taken = std::make_shared<UsageCount>();
  const ModelCaller caller{
      request.session.key.tenant,          request.session.key.session, name(), job_id,
      std::exchange(request.usage, taken), request.session.trace};
  return [models = models_, caller, taken, done = std::move(done)](absl::StatusOr<T> result) {
    const Usage usage = taken->Total();
    if (usage != Usage()) CountUsage(*models, caller, usage);
    done(std::move(result));
  };
}

void WorkerBlock::Feed(FeedRequest request, Done<FeedResult> done) const {
  done = Counted(request.job_id, request, std::move(done));
  workers_->Put(at_, std::move(request), std::move(done));
}

void WorkerBlock::Render(RenderRequest request, Done<BlockContent> done) const {
  done = Counted("", request, std::move(done));
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
  return std::make_shared<const WorkerBlock>(settings, environment.workers, environment.models);
}

}  // namespace memoryd
