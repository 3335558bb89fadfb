#include "core/blocks/session_block.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/blocks/block.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/block_options.h"
#include "core/blocks/block_traits.h"
#include "core/blocks/memory_text.h"
#include "core/blocks/other_sessions.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/tokens/token_counter.h"

namespace memoryd {
namespace {

constexpr std::size_t kMaxSessionId = 256;

class SessionBlock final : public Block {
 public:
  SessionBlock(const BlockSettings& settings, const std::shared_ptr<const BlockTraits>& traits,
               OtherSessions* sessions)
      : Block(settings, traits), other_(*traits->other_session()), sessions_(sessions) {}

  void Feed(FeedRequest request, Done<FeedResult> done) const override {
    // So that messages don't go round in a ring of sessions.
    std::erase_if(request.messages, [](const BlockMessage& message) {
      return !message.parts.source_session_id.empty();
    });
    const SessionKey other = OtherKey(request.session);
    if (request.messages.empty() || other == request.session.key) {
      done(FeedResult{std::move(request.state.state), {}, {}});
      return;
    }
    sessions_->HandOn(other, std::move(request), std::move(done));
  }

  void Render(RenderRequest request, Done<BlockContent> done) const override {
    const SessionKey other = OtherKey(request.session);
    if (other == request.session.key) {
      done(BlockContent());
      return;
    }
    sessions_->Show(other, std::move(request), std::move(done));
  }

  void Truncate(const BlockSession& /*session*/, BlockContent content, std::int64_t tokens,
                const TokenCounter& counter, BlockDeadline /*deadline*/,
                Done<BlockContent> done) const override {
    done(WithoutLowestRanks(std::move(content), tokens, counter));
  }

 private:
  SessionKey OtherKey(const BlockSession& session) const { return {session.key.tenant, other_}; }

  const std::string& other_;  // The traits', which the block keeps alive.
  OtherSessions* const sessions_;
};

class SessionTraits final : public BlockTraits {
 public:
  using BlockTraits::BlockTraits;

  absl::StatusOr<std::shared_ptr<const Block>> Make(
      const BlockSettings& settings, const std::string& /*field*/,
      const BlockEnvironment& environment) const override {
    return std::make_shared<const SessionBlock>(settings, shared_from_this(), environment.sessions);
  }
};

absl::Status CheckSettings(const BlockSettings& settings, const std::string& field,
                           const BlockOptions& options, std::string_view other) {
  MEMORYD_RETURN_IF_ERROR(options.Finish());
  if (other.size() > kMaxSessionId) {
    return InvalidField(OptionsField(field),
                        fmt::format("option `session_id` must be at most {} bytes", kMaxSessionId));
  }
  if (!settings.worker.empty()) {
    return InvalidField(fmt::format("{}.worker", field), "is not for kind `session`");
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const BlockTraits> ReadSessionTraits(const BlockSettings& settings,
                                                     const std::string& field,
                                                     Profile /*profile*/) {
  BlockOptions options(OptionsField(field), settings.options_json);
  BlockTraits::Values values = ValuesOf(settings, options);
  values.section = SectionOption(options);
  std::string other = options.RequiredText("session_id");
  values.feed = FeedOption(options, BlockFeed::kPut);
  values.status = CheckSettings(settings, field, options, other);
  if (!other.empty()) values.other_session = std::move(other);
  return std::make_shared<const SessionTraits>(std::move(values));
}

}  // namespace memoryd
