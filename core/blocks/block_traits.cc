#include "core/blocks/block_traits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/blocks/block.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/block_options.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/entry_log.h"
#include "core/blocks/fact_changes.h"
#include "core/model/job.h"
#include "core/model/session_config.h"

namespace memoryd {
namespace {

absl::Status KeepsNoHistory() {
  return Error(absl::StatusCode::kFailedPrecondition, "BLOCK_KEEPS_NO_HISTORY",
               "block: only blocks of kind fact-extraction keep changes that can be undone, and "
               "not in profile llama-index");
}

// What a block has whose kind this server does not know: another server may have stored it.
class UnknownTraits final : public BlockTraits {
 public:
  using BlockTraits::BlockTraits;

  absl::StatusOr<std::shared_ptr<const Block>> Make(
      const BlockSettings& /*settings*/, const std::string& /*field*/,
      const BlockEnvironment& /*environment*/) const override {
    return status();
  }
};

std::shared_ptr<const BlockTraits> ReadUnknown(const BlockSettings& settings,
                                               std::string_view field) {
  BlockOptions options(OptionsField(field), settings.options_json);
  BlockTraits::Values values = ValuesOf(settings, options);
  values.status = InvalidField(
      fmt::format("{}.kind", field),
      fmt::format("there is no such kind; there are: {}", fmt::join(BlockKinds(), ", ")));
  values.takes_content = true;
  values.feed = FeedOption(options, BlockFeed::kArchived);
  return std::make_shared<const UnknownTraits>(std::move(values));
}

}  // namespace

std::optional<std::string> BlockTraits::LimitedOptions(const std::string& /*options_json*/,
                                                       double /*max_trust*/) const {
  return std::nullopt;
}

absl::StatusOr<StateWithout> BlockTraits::OnMessagesGone(const BlockState& state,
                                                         const GoneMessages& gone) const {
  StateWithout after;
  if (!has_entries() || gone.archived.empty() || state.entry_generation == 0) return after;
  MEMORYD_ASSIGN_OR_RETURN(EmbeddingState known, EmbeddingState::FromJson(state.state));
  known.log.Open(state.next_entry, gone.random.Next());
  if (*known.log.count == 0) return after;
  for (const NumberRange& range : gone.archived) {
    known.log.NoteMark({range.begin, range.end, state.next_entry, !gone.changed});
  }
  after.state = known.ToJson();
  return after;
}

absl::StatusOr<StateInTime> BlockTraits::OnTime(std::string_view /*state*/,
                                                std::int64_t /*now_us*/) const {
  return StateInTime();
}

absl::StatusOr<UndoneChange> BlockTraits::UndoChange(std::string_view /*state*/,
                                                     std::int64_t /*change*/,
                                                     const FactJob& /*caller*/) const {
  return KeepsNoHistory();
}

absl::StatusOr<EditedFacts> BlockTraits::EditFact(std::string_view /*state*/,
                                                  const FactEdit& /*edit*/,
                                                  const FactJob& /*caller*/) const {
  return KeepsNoHistory();
}

std::shared_ptr<const BlockTraits> TraitsOf(const BlockSettings& settings, Profile profile,
                                            std::string_view field) {
  if (settings.traits != nullptr) return settings.traits;
  const std::span<const BlockKind> kinds = BlockKindTable();
  const auto kind = std::find_if(kinds.begin(), kinds.end(), [&settings](const BlockKind& known) {
    return known.name == settings.kind;
  });
  if (kind == kinds.end()) return ReadUnknown(settings, field);
  return kind->read(settings, std::string(field), profile);
}

std::string OptionsField(std::string_view field) { return fmt::format("{}.options_json", field); }

BlockTraits::Values ValuesOf(const BlockSettings& settings, const BlockOptions& options) {
  BlockTraits::Values values;
  values.has_texts = !settings.content.empty() || options.HasTexts();
  return values;
}

BlockFeed FeedOption(BlockOptions& options, BlockFeed feed) {
  return options.Bool("accept_short_term_memory", true) ? feed : BlockFeed::kNever;
}

std::int64_t TtlOption(BlockOptions& options) {
  return options.Integer("ttl", 0, 1, kMaxTtlSeconds) * 1'000'000;
}

void ReadTraits(std::vector<BlockSettings>& blocks, Profile profile) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].traits = nullptr;
    blocks[i].traits = TraitsOf(blocks[i], profile, fmt::format("config.blocks[{}]", i));
  }
}

}  // namespace memoryd
