#include "core/blocks/static_block.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/blocks/block_options.h"
#include "core/blocks/known_tokens.h"
#include "core/blocks/memory_text.h"

namespace memoryd {
namespace {

class StaticBlock final : public Block {
 public:
  StaticBlock(const BlockSettings& settings, std::string section, std::vector<BlockPart> parts)
      : Block(settings, std::move(section)), parts_(std::move(parts)) {}

  bool feeds() const override { return false; }
  bool stable() const override { return true; }
  KnownTokens* known_tokens() const override { return &known_tokens_; }

  void Feed(FeedRequest request, Done<FeedResult> done) const override {
    FeedResult result;
    result.state = std::move(request.state.state);
    done(std::move(result));
  }

  void Render(RenderRequest /*request*/, Done<BlockContent> done) const override {
    done(BlockContent{parts_, {}});
  }

 private:
  const std::vector<BlockPart> parts_;
  mutable KnownTokens known_tokens_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Block>> MakeStaticBlock(const BlockSettings& settings,
                                                             const std::string& field,
                                                             Profile profile,
                                                             const BlockEnvironment& environment) {
  BlockOptions options(fmt::format("{}.options_json", field), settings.options_json);
  std::string section = SectionOption(options);
  MEMORYD_RETURN_IF_ERROR(options.Finish());
  std::vector<BlockPart> parts;
  for (std::size_t i = 0; i < settings.content.size(); ++i) {
    MEMORYD_ASSIGN_OR_RETURN(StoredPart stored, environment.bodies->ReadPart(settings.content[i]));
    BlockPart part = ToBlockPart(std::move(stored), settings.content[i]);
    // In `llama-index` every Get fails on such a part, as in the library.
    if (profile != Profile::kLlamaIndex && !IsMedia(part.kind) &&
        part.kind != StoredPart::Kind::kText && part.kind != StoredPart::Kind::kJson) {
      return InvalidField(fmt::format("{}.content[{}]", field, i),
                          "must be text, JSON, an image, audio, a video or a document");
    }
    parts.push_back(std::move(part));
  }
  return std::make_shared<const StaticBlock>(settings, std::move(section), std::move(parts));
}

}  // namespace memoryd
