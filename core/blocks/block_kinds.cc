#include "core/blocks/block_kinds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/blocks/entity_block.h"
#include "core/blocks/fact_block.h"
#include "core/blocks/session_block.h"
#include "core/blocks/static_block.h"
#include "core/blocks/summary_block.h"
#include "core/blocks/vector_block.h"
#include "core/blocks/worker_block.h"

namespace memoryd {
namespace {

struct Kind {
  std::string_view name;
  BlockFactory make;
};

constexpr Kind kKinds[] = {
    {"entity", MakeEntityBlock}, {"fact-extraction", MakeFactBlock}, {"session", MakeSessionBlock},
    {"static", MakeStaticBlock}, {"summary", MakeSummaryBlock},      {"vector", MakeVectorBlock},
    {"worker", MakeWorkerBlock},
};

constexpr std::size_t kMaxName = 64;

constexpr const char* kFirstFacts = "facts";
constexpr const char* kFactsTrust = "facts_trust";

// Options whose strings are names, or are compared and never shown.
constexpr std::string_view kNameOptions[] = {"embedder", "filter", "model", "session_id"};

bool KeepsHistory(const BlockSettings& settings, Profile profile) {
  return settings.kind == "fact-extraction" && profile != Profile::kLlamaIndex;
}

absl::Status KeepsNoHistory() {
  return Error(absl::StatusCode::kFailedPrecondition, "BLOCK_KEEPS_NO_HISTORY",
               "block: only blocks of kind fact-extraction keep changes that can be undone, and "
               "not in profile llama-index");
}

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

}  // namespace

bool HasTexts(const BlockSettings& settings, Profile profile, double max_trust) {
  if (!settings.content.empty()) return true;
  if (settings.options_json.empty()) return false;
  const nlohmann::json options = nlohmann::json::parse(settings.options_json, nullptr, false);
  if (!options.is_object()) return true;
  const auto trust = options.find(kFactsTrust);
  const bool limited = KeepsHistory(settings, profile) && trust != options.end() &&
                       trust->is_number() && trust->get<double>() <= max_trust;
  return std::any_of(options.items().begin(), options.items().end(), [&](const auto& option) {
    if (limited && option.key() == kFirstFacts) return false;
    const bool names = std::find(std::begin(kNameOptions), std::end(kNameOptions), option.key()) !=
                       std::end(kNameOptions);
    return !names && !option.value().is_number() && !option.value().is_boolean() &&
           !option.value().is_null() && !option.value().empty();
  });
}

ModelNames ModelsOf(const BlockSettings& settings) {
  ModelNames names;
  // Options of kind `worker` are the worker's to read.
  if (!settings.worker.empty() || settings.kind == "worker") return names;
  const nlohmann::json options = nlohmann::json::parse(settings.options_json, nullptr, false);
  if (!options.is_object()) return names;
  for (const auto& [key, name] :
       {std::pair("model", &names.model), std::pair("embedder", &names.embedder)}) {
    const auto found = options.find(key);
    if (found != options.end() && found->is_string()) *name = found->get<std::string>();
  }
  return names;
}

void LimitFirstFacts(BlockSettings& settings, Profile profile, double max_trust) {
  if (!KeepsHistory(settings, profile) || settings.options_json.empty()) return;
  auto options = nlohmann::ordered_json::parse(settings.options_json, nullptr, false);
  if (!options.is_object() || !options.contains(kFirstFacts)) return;
  const auto trust = options.find(kFactsTrust);
  if (trust != options.end() && !(trust->is_number() && trust->get<double>() > max_trust)) return;
  options[kFactsTrust] = max_trust;
  settings.options_json =
      options.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::vector<std::string_view> BlockKinds() {
  std::vector<std::string_view> names;
  for (const Kind& kind : kKinds) names.push_back(kind.name);
  return names;
}

absl::StatusOr<std::shared_ptr<const Block>> MakeBlock(const BlockSettings& settings,
                                                       std::string_view field, Profile profile,
                                                       const BlockEnvironment& environment) {
  if (!IsName(settings.name)) {
    return InvalidField(fmt::format("{}.name", field), "must be 1 to 64 of [A-Za-z0-9_-]");
  }
  if (settings.priority < 0) {
    return InvalidField(fmt::format("{}.priority", field), "must be at least 0");
  }
  const auto* const kind =
      std::find_if(std::begin(kKinds), std::end(kKinds),
                   [&settings](const Kind& known) { return known.name == settings.kind; });
  if (kind == std::end(kKinds)) {
    return InvalidField(
        fmt::format("{}.kind", field),
        fmt::format("there is no such kind; there are: {}", fmt::join(BlockKinds(), ", ")));
  }
  if (settings.kind != "static" && !settings.content.empty()) {
    return InvalidField(fmt::format("{}.content", field), "is for kind `static`");
  }
  return kind->make(settings, std::string(field), profile, environment);
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
    if (settings[i].OtherSession().has_value() && ++other_sessions > kMaxOtherSessions) {
      return InvalidField(fmt::format("{}.kind", field),
                          fmt::format("at most {} blocks of kind `session`", kMaxOtherSessions));
    }
    if (!names.insert(settings[i].name).second) {
      return InvalidField(fmt::format("{}.name", field), "is the name of an earlier block");
    }
    MEMORYD_ASSIGN_OR_RETURN(std::shared_ptr<const Block> block,
                             MakeBlock(settings[i], field, profile, environment));
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

absl::StatusOr<std::optional<RetiredFacts>> RetireFacts(const BlockSettings& settings,
                                                        Profile profile, std::string_view state,
                                                        std::span<const std::string> message_ids,
                                                        std::int64_t now_us) {
  if (!KeepsHistory(settings, profile) || state.empty()) return std::nullopt;
  MEMORYD_ASSIGN_OR_RETURN(FactState facts, FactState::FromJson(state));
  const Retired retired = RetireEvidence(facts, message_ids, {"", now_us});
  if (!retired.changed) return std::nullopt;
  return RetiredFacts{facts.ToJson(), retired.facts};
}

absl::StatusOr<UndoneChange> UndoBlockChange(const BlockSettings& settings, Profile profile,
                                             std::string_view state, std::int64_t change,
                                             const FactJob& caller) {
  if (!KeepsHistory(settings, profile)) return KeepsNoHistory();
  MEMORYD_ASSIGN_OR_RETURN(FactState facts, FactState::FromJson(state));
  MEMORYD_RETURN_IF_ERROR(UndoChange(facts, change, caller));
  // What comes back took more room in the history: no fact is left out.
  return UndoneChange{facts.ToJson(), std::move(facts.facts)};
}

absl::StatusOr<EditedFacts> EditBlockFact(const BlockSettings& settings, Profile profile,
                                          std::string_view state, const FactEdit& edit,
                                          const FactJob& caller) {
  if (!KeepsHistory(settings, profile)) return KeepsNoHistory();
  MEMORYD_ASSIGN_OR_RETURN(KeptFacts kept, ReadKeptFacts(settings, state));
  MEMORYD_ASSIGN_OR_RETURN(EditedFact edited, EditFact(kept.state, edit, kept.max_facts, caller));
  EditedFacts result{kept.state.ToJson(), std::move(edited)};
  // Facts that there was no room for are not in the text: no other fact goes for this one.
  if (result.state.size() > kMaxBlockState / 2) {
    MEMORYD_ASSIGN_OR_RETURN(const FactState written, FactState::FromJson(result.state));
    if (written.facts.size() < kept.state.facts.size()) return TooManyFacts();
  }
  return result;
}

}  // namespace memoryd
