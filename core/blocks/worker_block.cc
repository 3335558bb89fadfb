#include "core/blocks/worker_block.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/blocks/block.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/block_knowledge.h"
#include "core/blocks/block_options.h"
#include "core/blocks/block_traits.h"
#include "core/blocks/model_calls.h"
#include "core/llm/model.h"
#include "core/model/job.h"
#include "core/model/session_config.h"
#include "core/model/usage_count.h"
#include "core/tokens/token_counter.h"

namespace memoryd {
namespace {

class WorkerTraits final : public BlockTraits {
 public:
  using BlockTraits::BlockTraits;

  absl::StatusOr<std::shared_ptr<const Block>> Make(
      const BlockSettings& settings, const std::string& /*field*/,
      const BlockEnvironment& environment) const override {
    return std::make_shared<const WorkerBlock>(settings, shared_from_this(), environment.workers,
                                               environment.models);
  }
};

}  // namespace

WorkerBlock::WorkerBlock(const BlockSettings& settings, std::shared_ptr<const BlockTraits> traits,
                         WorkerBlocks* workers, ModelDirectory* models)
    : Block(settings, std::move(traits)),
      at_{settings.worker, settings.name, settings.options_json},
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

std::shared_ptr<const BlockTraits> ReadWorkerTraits(const BlockSettings& settings,
                                                    const std::string& field, Profile /*profile*/) {
  BlockOptions options(OptionsField(field), settings.options_json);
  BlockTraits::Values values = ValuesOf(settings, options);
  values.feed = FeedOption(options, BlockFeed::kArchived);
  if (settings.worker.empty()) {
    values.status = InvalidField(field + ".worker", "is required for kind `worker`");
  }
  return std::make_shared<const WorkerTraits>(std::move(values));
}

}  // namespace memoryd
