#include "core/blocks/static_block.h"

#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/blocks/block.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/block_options.h"
#include "core/blocks/block_traits.h"
#include "core/blocks/known_tokens.h"
#include "core/blocks/memory_text.h"
#include "core/model/body_reader.h"
#include "core/model/session_config.h"

namespace memoryd {
namespace {

class StaticBlock final : public Block {
 public:
  StaticBlock(const BlockSettings& settings, std::shared_ptr<const BlockTraits> traits,
              std::vector<BlockPart> parts)
      : Block(settings, std::move(traits)), parts_(std::move(parts)) {}

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

class StaticTraits final : public BlockTraits {
 public:
  StaticTraits(Values values, Profile profile)
      : BlockTraits(std::move(values)), profile_(profile) {}

  absl::StatusOr<std::shared_ptr<const Block>> Make(
      const BlockSettings& settings, const std::string& field,
      const BlockEnvironment& environment) const override;

 private:
  const Profile profile_;
};

absl::StatusOr<std::shared_ptr<const Block>> StaticTraits::Make(
    const BlockSettings& settings, const std::string& field,
    const BlockEnvironment& environment) const {
  std::vector<BlockPart> parts;
  for (std::size_t i = 0; i < settings.content.size(); ++i) {
    MEMORYD_ASSIGN_OR_RETURN(StoredPart stored, environment.bodies->ReadPart(settings.content[i]));
    BlockPart part = ToBlockPart(std::move(stored), settings.content[i]);
    // In `llama-index` every Get fails on such a part, as in the library.
    if (profile_ != Profile::kLlamaIndex && !IsMedia(part.kind) &&
        part.kind != StoredPart::Kind::kText && part.kind != StoredPart::Kind::kJson) {
      return InvalidField(fmt::format("{}.content[{}]", field, i),
                          "must be text, JSON, an image, audio, a video or a document");
    }
    parts.push_back(std::move(part));
  }
  return std::make_shared<const StaticBlock>(settings, shared_from_this(), std::move(parts));
}

}  // namespace

std::shared_ptr<const BlockTraits> ReadStaticTraits(const BlockSettings& settings,
                                                    const std::string& field, Profile profile) {
  BlockOptions options(OptionsField(field), settings.options_json);
  BlockTraits::Values values = ValuesOf(settings, options);
  values.takes_content = true;
  values.section = SectionOption(options);
  values.status = options.Finish();
  return std::make_shared<const StaticTraits>(std::move(values), profile);
}

}  // namespace memoryd
