#include "core/blocks/block_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/blocks/block_traits.h"
#include "core/blocks/entry_search.h"
#include "core/llm/model.h"
#include "core/model/body_reader.h"
#include "core/model/session_config.h"

namespace memoryd {
namespace {

constexpr std::size_t kMaxName = 64;

// What blocks have that are made to be looked at, and asked nothing.
class NoModels final : public ModelDirectory {
 public:
  absl::StatusOr<std::shared_ptr<ChatModel>> FindChatModel(std::string_view /*tenant*/,
                                                           std::string_view /*worker*/,
                                                           std::string_view /*model*/) override {
    return absl::NotFoundError("there are no models");
  }
  absl::StatusOr<std::shared_ptr<Embedder>> FindEmbedder(std::string_view /*tenant*/,
                                                         std::string_view /*worker*/,
                                                         std::string_view /*embedder*/) override {
    return absl::NotFoundError("there are no models");
  }
};

class NoEntries final : public EntrySearch {
 public:
  absl::StatusOr<std::vector<EntryHit>> Nearest(const EntryQuery& /*query*/) override {
    return std::vector<EntryHit>();
  }
};

bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-';
         });
}

absl::StatusOr<std::shared_ptr<const Block>> MakeBy(const BlockTraits& traits,
                                                    const BlockSettings& settings,
                                                    const std::string& field,
                                                    const BlockEnvironment& environment) {
  if (!IsName(settings.name)) {
    return InvalidField(fmt::format("{}.name", field), "must be 1 to 64 of [A-Za-z0-9_-]");
  }
  if (settings.priority < 0) {
    return InvalidField(fmt::format("{}.priority", field), "must be at least 0");
  }
  if (!traits.takes_content() && !settings.content.empty()) {
    return InvalidField(fmt::format("{}.content", field), "is for kind `static`");
  }
  MEMORYD_RETURN_IF_ERROR(traits.status());
  return traits.Make(settings, field, environment);
}

}  // namespace

bool HasTexts(const BlockSettings& settings, Profile profile, double max_trust) {
  return TraitsOf(settings, profile)->HasTexts(max_trust);
}

void LimitFirstFacts(BlockSettings& settings, Profile profile, double max_trust) {
  std::optional<std::string> limited =
      TraitsOf(settings, profile)->LimitedOptions(settings.options_json, max_trust);
  if (!limited.has_value()) return;
  settings.options_json = *std::move(limited);
  settings.traits = nullptr;
}

std::vector<std::string_view> BlockKinds() {
  std::vector<std::string_view> names;
  for (const BlockKind& kind : BlockKindTable()) names.push_back(kind.name);
  return names;
}

absl::StatusOr<std::shared_ptr<const Block>> MakeBlock(const BlockSettings& settings,
                                                       std::string_view field, Profile profile,
                                                       const BlockEnvironment& environment) {
  return MakeBy(*TraitsOf(settings, profile, field), settings, std::string(field), environment);
}

absl::StatusOr<std::vector<std::shared_ptr<const Block>>> MakeBlocks(
    std::span<const BlockSettings> settings, Profile profile, const BlockEnvironment& environment) {
  if (settings.size() > kMaxBlocks) {
    return InvalidField("config.blocks", fmt::format("must be at most {}", kMaxBlocks));
  }
  std::vector<std::shared_ptr<const Block>> blocks;
  std::set<std::string_view> names;
  std::size_t other_sessions = 0;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const std::string field = fmt::format("config.blocks[{}]", i);
    const std::shared_ptr<const BlockTraits> traits = TraitsOf(settings[i], profile, field);
    if (traits->other_session().has_value() && ++other_sessions > kMaxOtherSessions) {
      return InvalidField(fmt::format("{}.kind", field),
                          fmt::format("at most {} blocks of kind `session`", kMaxOtherSessions));
    }
    if (!names.insert(settings[i].name).second) {
      return InvalidField(fmt::format("{}.name", field), "is the name of an earlier block");
    }
    MEMORYD_ASSIGN_OR_RETURN(std::shared_ptr<const Block> block,
                             MakeBy(*traits, settings[i], field, environment));
    blocks.push_back(std::move(block));
  }
  return blocks;
}

absl::Status CheckBlocks(std::span<const BlockSettings> settings, Profile profile,
                         const BodyReader& bodies) {
  NoModels models;
  NoEntries entries;
  BlockEnvironment environment;
  environment.models = &models;
  environment.entries = &entries;
  environment.bodies = &bodies;
  return MakeBlocks(settings, profile, environment).status();
}

}  // namespace memoryd
