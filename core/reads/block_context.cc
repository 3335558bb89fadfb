#include "core/reads/block_context.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/blocks/block.h"
#include "core/blocks/fit_blocks.h"
#include "core/blocks/memory_text.h"
#include "core/model/body_reader.h"
#include "core/model/message.h"
#include "core/model/session_config.h"
#include "core/model/usage_count.h"
#include "core/reads/compose.h"
#include "core/reads/context.h"
#include "core/reads/explain.h"

namespace memoryd {
namespace {

class Builder : public std::enable_shared_from_this<Builder> {
 public:
  Builder(BlockContextRequest request, std::function<void(absl::StatusOr<Context>)> done)
      : request_(std::move(request)), done_(std::move(done)), order_(request_.blocks->size()) {
    const BlockSet& blocks = *request_.blocks;
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::stable_sort(order_.begin(), order_.end(), [&blocks](std::size_t a, std::size_t b) {
      return blocks[a]->priority() > blocks[b]->priority();
    });
    contents_.resize(blocks.size(), absl::UnknownError("the block has not answered"));
    left_ = blocks.size();
  }

  void Start() {
    if (absl::Status status = ReadMessages(); !status.ok()) {
      done_(std::move(status));
      return;
    }
    if (order_.empty()) {
      Fit();
    } else if (Sequential()) {
      Ask(0);
    } else {
      for (std::size_t i = 0; i < order_.size(); ++i) Ask(i);
    }
  }

 private:
  bool Sequential() const { return profile() == Profile::kLlamaIndex; }
  std::chrono::steady_clock::time_point NextDeadline() const {
    const auto now = std::chrono::steady_clock::now();
    return std::min(now + request_.block_timeout, now + (request_.deadline - now) / 2);
  }
  Profile profile() const { return request_.session.config->counting.profile; }

  absl::Status ReadMessages() {
    const std::uint64_t generation = request_.session.row.generation;
    const auto read = [this, generation](const MessagePtr& row) -> absl::Status {
      BlockMessage& message = messages_.emplace_back();
      message.row = row;
      message.id = MessageId(*row, generation);
      MEMORYD_ASSIGN_OR_RETURN(message.parts, request_.bodies->ReadParts(row->body));
      return absl::OkStatus();
    };
    for (const MessagePtr& row : request_.session.pinned) MEMORYD_RETURN_IF_ERROR(read(row));
    for (const MessagePtr& row : request_.session.active) MEMORYD_RETURN_IF_ERROR(read(row));
    if (request_.input.has_value()) {
      StoredMessage& input = messages_.emplace_back().parts;
      input.role = "user";
      input.parts.emplace_back().text = *request_.input;
    }
    return absl::OkStatus();
  }

  // The i-th in order_.
  void Ask(std::size_t i) {
    const std::size_t index = order_[i];
    const Block& block = *(*request_.blocks)[index];
    RenderRequest render;
    render.session = {request_.key, profile(), request_.trace, request_.session.config->zone()};
    const auto state = request_.session.blocks.find(block.name());
    if (state != request_.session.blocks.end()) render.state = state->second;
    render.messages = messages_;
    render.deadline = NextDeadline();
    render.usage = usage_;
    render.now_us = request_.now_us;
    block.Render(std::move(render),
                 [self = shared_from_this(), i, index](absl::StatusOr<BlockContent> content) {
                   self->Answered(i, index, std::move(content));
                 });
  }

  void Answered(std::size_t i, std::size_t index, absl::StatusOr<BlockContent> content) {
    std::size_t left = 0;
    {
      MutexLock lock(mutex_);
      contents_[index] = std::move(content);
      left = --left_;
    }
    if (left == 0) {
      request_.run([self = shared_from_this()] { self->Fit(); });
    } else if (Sequential()) {
      // Not from here: each block would stand on the stack of the one before.
      request_.run([self = shared_from_this(), i] { self->Ask(i + 1); });
    }
  }

  void Fit() {
    std::vector<absl::StatusOr<BlockContent>> contents;
    {
      MutexLock lock(mutex_);
      contents = std::move(contents_);
    }
    FitRequest fit;
    for (std::size_t index = 0; index < contents.size(); ++index) {
      absl::StatusOr<BlockContent>& content = contents[index];
      if (absl::IsInvalidArgument(content.status())) {
        done_(content.status());
        return;
      }
      if (!content.ok()) {
        missing_.push_back({(*request_.blocks)[index]->name(), MissingReason(content.status())});
      } else {
        for (const auto& [name, status] : content->missing) {
          missing_.push_back(
              {(*request_.blocks)[index]->name() + "/" + name, MissingReason(status)});
        }
      }
      fit.contents.push_back(content.ok() ? *std::move(content) : BlockContent());
    }
    const SessionConfig& config = *request_.session.config;
    fit.session = {request_.key, profile(), request_.trace};
    fit.counting = config.counting;
    fit.token_limit = config.token_limit;
    fit.highest_first = config.cut_highest_first;
    fit.message_tokens = TokensWithoutLimit(request_.session);
    fit.blocks = *request_.blocks;
    fit.counter = request_.counter;
    fit.deadline = NextDeadline();
    FitBlocks(std::move(fit), [self = shared_from_this()](absl::StatusOr<FitResult> result) {
      self->request_.run([self, result = std::move(result)]() mutable {
        self->done_(self->Finish(std::move(result)));
      });
    });
  }

  absl::StatusOr<Context> Finish(absl::StatusOr<FitResult> fitted) {
    MEMORYD_RETURN_IF_ERROR(fitted.status());
    Context context = Compose(request_.session, fitted->tokens);
    MEMORYD_ASSIGN_OR_RETURN(context.memory, MemoryParts(profile(), fitted->sections));
    if (request_.explain) context.explanation = ExplainBlocks(context, *fitted);
    for (MemorySection& section : fitted->sections) {
      if (section.content.empty()) continue;
      context.blocks_used.push_back(section.name);
      for (StoredMessage& message : section.content.messages) {
        context.block_messages.push_back(std::move(message));
      }
    }
    context.blocks_dropped = std::move(fitted->dropped);
    context.missing_blocks = std::move(missing_);
    context.usage = usage_->Total();
    context.insert_method = request_.session.config->insert_method;
    return context;
  }

  // Before what the sections say is moved away.
  std::shared_ptr<const Explanation> ExplainBlocks(const Context& context,
                                                   const FitResult& fitted) const {
    const Session& session = request_.session;
    auto explanation = std::make_shared<Explanation>(Explain(
        request_.stored == nullptr ? session : *request_.stored, session, context.messages));
    explanation->block_tokens = fitted.tokens;
    for (std::size_t i = 0; i < fitted.sections.size(); ++i) {
      const Block& block = *(*request_.blocks)[i];
      ExplainedBlock& explained = explanation->blocks.emplace_back();
      explained.block = block.name();
      for (const BlockSettings& settings : session.config->blocks) {
        if (settings.name == block.name()) explained.kind = settings.kind;
      }
      explained.priority = block.priority();
      explained.tokens = fitted.section_tokens[i];
      explained.uncut_tokens = fitted.uncut_tokens[i];
      explained.outcome = OutcomeOf(fitted, i);
      const MissingBlock* const missing = FindMissing(block.name());
      if (explained.outcome == BlockOutcome::kEmpty && missing != nullptr) {
        explained.outcome = BlockOutcome::kMissing;
        explained.missing_reason = missing->reason;
      }
    }
    return explanation;
  }

  static BlockOutcome OutcomeOf(const FitResult& fitted, std::size_t i) {
    const std::string& name = fitted.sections[i].name;
    const auto names = [&name](const std::vector<std::string>& blocks) {
      return std::find(blocks.begin(), blocks.end(), name) != blocks.end();
    };
    if (names(fitted.dropped)) return BlockOutcome::kDropped;
    if (names(fitted.truncated)) return BlockOutcome::kCut;
    return fitted.sections[i].content.empty() ? BlockOutcome::kEmpty : BlockOutcome::kShown;
  }

  // The block itself, or one of another session that it shows.
  const MissingBlock* FindMissing(const std::string& name) const {
    for (const MissingBlock& missing : missing_) {
      if (missing.block == name || missing.block.starts_with(name + "/")) return &missing;
    }
    return nullptr;
  }

  BlockContextRequest request_;
  const std::function<void(absl::StatusOr<Context>)> done_;
  std::vector<std::size_t> order_;  // Of blocks, by descending priority.
  std::vector<BlockMessage> messages_;
  std::vector<MissingBlock> missing_;
  const std::shared_ptr<UsageCount> usage_ = std::make_shared<UsageCount>();
  Mutex mutex_;
  std::vector<absl::StatusOr<BlockContent>> contents_ MEMORYD_GUARDED_BY(mutex_);
  std::size_t left_ MEMORYD_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::string MissingReason(const absl::Status& status) {
  if (absl::IsDeadlineExceeded(status)) return "TIMEOUT";
  std::string reason = ErrorReason(status);
  return reason.empty() ? absl::StatusCodeToString(status.code()) : reason;
}

void BuildBlockContext(BlockContextRequest request,
                       std::function<void(absl::StatusOr<Context>)> done) {
  std::make_shared<Builder>(std::move(request), std::move(done))->Start();
}

}  // namespace memoryd
