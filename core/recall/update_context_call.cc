#include "core/recall/update_context_call.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/blocks/block.h"
#include "core/blocks/block_traits.h"
#include "core/blocks/memory_text.h"
#include "core/calls/call_end.h"
#include "core/calls/calls.h"
#include "core/model/job.h"
#include "core/model/session_config.h"
#include "core/recall/recall.h"
#include "core/recall/search_call.h"
#include "core/sessions/session_cache.h"
#include "core/sessions/session_info.h"
#include "core/tokens/token_counter.h"

namespace memoryd {
namespace {

class UpdateContextCall final : public SearchCall {
 public:
  UpdateContextCall(const SearchEnvironment* environment,
                    std::shared_ptr<ReadCall<UpdatedContext>> read, UpdateContextRequest request)
      : SearchCall(environment, read, request.key),
        read_(std::move(read)),
        request_(std::move(request)) {}

 private:
  using Contents = std::map<std::string, BlockContent>;
  struct Shown {
    Mutex mutex;
    Contents contents MEMORYD_GUARDED_BY(mutex);
    std::size_t left MEMORYD_GUARDED_BY(mutex) = 0;
  };

  bool NeedsIndex(const SessionInfo& info) const override {
    return Recall::NeedsIndex(info, request_);
  }

  void Next(const SessionInfo& info, const BlockState* /*embeddings*/) override {
    if (!shown_.has_value() && AskOthers(info)) return;
    auto answer = [&]() -> absl::StatusOr<UpdatedContext> {
      MEMORYD_ASSIGN_OR_RETURN(const std::vector<OfferedBlock> blocks, StableBlocks());
      return environment().recall->Answer(info, index(), request_, accept_missing(), blocks);
    }();
    if (answer.ok()) {
      read_->Finish(std::move(answer));
    } else {
      Fail(answer.status());
    }
  }

  // True when the session has blocks of kind `session`, whose other sessions are read: the call
  // goes on when they have been.
  bool AskOthers(const SessionInfo& info);
  void OtherAnswered(Shown& shown, const std::string& block, absl::StatusOr<BlockContent> content);
  // What the session's stable blocks say, and those of kind `session`.
  absl::StatusOr<std::vector<OfferedBlock>> StableBlocks() const;

  const std::shared_ptr<ReadCall<UpdatedContext>> read_;
  const UpdateContextRequest request_;
  // What is stable in what the session's blocks of kind `session` show, by their names; absent
  // before that has been asked.
  std::optional<Contents> shown_;
};

bool UpdateContextCall::AskOthers(const SessionInfo& info) {
  shown_.emplace();
  std::vector<std::pair<std::string, std::string>> others;  // Names of blocks and sessions.
  if (info.exists()) {
    for (const BlockSettings& block : info.config->blocks) {
      std::optional<std::string> other = block.traits->other_session();
      if (!other.has_value() || *other == request_.key.session) continue;
      others.emplace_back(block.name, *std::move(other));
    }
  }
  if (others.empty()) return false;
  auto shown = std::make_shared<Shown>();
  {
    MutexLock lock(shown->mutex);
    shown->left = others.size();
  }
  const auto self = std::static_pointer_cast<UpdateContextCall>(shared_from_this());
  for (const auto& [name, other] : others) {
    RenderRequest render;
    render.deadline = read_->deadline();
    environment().others->ShowStable(
        {request_.key.tenant, other}, std::move(render),
        [self, shown, block = name](absl::StatusOr<BlockContent> content) {
          self->OtherAnswered(*shown, block, std::move(content));
        });
  }
  return true;
}

void UpdateContextCall::OtherAnswered(Shown& shown, const std::string& block,
                                      absl::StatusOr<BlockContent> content) {
  if (content.ok() && !content->missing.empty()) content = content->missing.front().second;
  if (!content.ok()) {
    read_->Finish(content.status());
    return;
  }
  {
    MutexLock lock(shown.mutex);
    shown.contents.emplace(block, *std::move(content));
    if (--shown.left > 0) return;
    shown_->swap(shown.contents);
  }
  QueueStep();
}

absl::StatusOr<std::vector<OfferedBlock>> UpdateContextCall::StableBlocks() const {
  CachedSession& place = *session();
  std::shared_ptr<const SessionConfig> config;
  std::map<std::string, std::shared_ptr<const BlockState>> states;
  {
    MutexLock lock(place.mutex);
    config = place.session.config;
    if (config->blocks.empty()) return std::vector<OfferedBlock>();
    states = place.session.blocks;
  }
  MEMORYD_ASSIGN_OR_RETURN(const std::shared_ptr<const BlockSet> blocks,
                           environment().blocks->Of(place, config));
  MEMORYD_ASSIGN_OR_RETURN(const std::shared_ptr<const TokenCounter> counter,
                           environment().token_rules->CounterOf(config->counting));
  const TokenCounter& count = counter == nullptr ? ByteTokenCounter() : *counter;
  std::vector<OfferedBlock> offered;
  for (const std::shared_ptr<const Block>& block : *blocks) {
    absl::StatusOr<BlockContent> content = BlockContent();
    if (const auto other = shown_->find(block->name()); other != shown_->end()) {
      content = other->second;
    } else if (block->stable()) {
      RenderRequest render;
      render.session = {place.key, config->counting.profile};
      const auto state = states.find(block->name());
      if (state != states.end()) render.state = state->second;
      content = absl::InternalError("a stable block has not answered");
      block->Render(std::move(render),
                    [&content](absl::StatusOr<BlockContent> said) { content = std::move(said); });
    }
    MEMORYD_RETURN_IF_ERROR(content.status());
    std::string text = PlainText(*content);
    if (text.empty()) continue;
    const std::int64_t tokens = count.Count(text);
    offered.push_back({{block->name(), std::move(text)}, tokens, block->priority() > 0});
  }
  return offered;
}

}  // namespace

void StartUpdateContext(const SearchEnvironment* environment, UpdateContextRequest request,
                        CallEnd end, std::function<void(absl::StatusOr<UpdatedContext>)> done) {
  auto read =
      environment->calls->Begin<UpdatedContext>(request.key.tenant, std::move(end), std::move(done),
                                                static_cast<std::int64_t>(request.byte_size));
  if (read == nullptr) return;
  request.now_us = environment->clock->NowUs();
  std::make_shared<UpdateContextCall>(environment, std::move(read), std::move(request))->Begin();
}

}  // namespace memoryd
