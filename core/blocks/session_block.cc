#include "core/blocks/session_block.h"

#include <fmt/format.h>

#include <cstddef>
#include <utility>

#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/blocks/block_options.h"
#include "core/blocks/memory_text.h"
#include "core/blocks/other_sessions.h"

namespace memoryd {
namespace {

constexpr std::size_t kMaxSessionId = 256;

class SessionBlock final : public Block {
 public:
  SessionBlock(const BlockSettings& settings, std::string section, std::string other,
               OtherSessions* sessions)
      : Block(settings, std::move(section)),
        feeds_(settings.TakesPuts()),
        other_(std::move(other)),
        sessions_(sessions) {}

  bool feeds() const override { return feeds_; }

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

  const bool feeds_;
  const std::string other_;
  OtherSessions* const sessions_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Block>> MakeSessionBlock(const BlockSettings& settings,
                                                              const std::string& field,
                                                              Profile /*profile*/,
                                                              const BlockEnvironment& environment) {
  const std::string options_field = fmt::format("{}.options_json", field);
  BlockOptions options(options_field, settings.options_json);
  std::string section = SectionOption(options);
  std::string other = options.RequiredText("session_id");
  options.Bool("accept_short_term_memory", true);
  MEMORYD_RETURN_IF_ERROR(options.Finish());
  if (other.size() > kMaxSessionId) {
    return InvalidField(options_field,
                        fmt::format("option `session_id` must be at most {} bytes", kMaxSessionId));
  }
  if (!settings.worker.empty()) {
    return InvalidField(fmt::format("{}.worker", field), "is not for kind `session`");
  }
  return std::make_shared<const SessionBlock>(settings, std::move(section), std::move(other),
                                              environment.sessions);
}

}  // namespace memoryd
