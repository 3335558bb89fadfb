// The options of blocks that keep facts, and what becomes of facts without a model.
#ifndef MEMORYD_CORE_BLOCKS_FACT_TRAITS_H_
#define MEMORYD_CORE_BLOCKS_FACT_TRAITS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/blocks/block_traits.h"
#include "core/blocks/fact_state.h"
#include "core/blocks/model_calls.h"
#include "core/blocks/same_facts.h"

namespace memoryd {

// See MakeFactBlock().
struct FactOptions {
  std::size_t max_facts = 50;
  std::vector<std::string> first_facts;
  // How far these are trusted. By default wholly: whoever configured the session said so.
  std::optional<double> first_trust;
  BlockPrompt extraction_prompt;
  BlockPrompt condense_prompt;
  double same_similarity = kSameFactSimilarity;
};

// The traits of blocks of kind `fact-extraction`. In profile `llama-index` facts have neither times
// nor trust, and no history: there only a model changes them.
class FactTraits final : public BlockTraits {
 public:
  FactTraits(Values values, FactOptions options, bool is_llama, bool has_other_texts)
      : BlockTraits(std::move(values)),
        options_(std::move(options)),
        is_llama_(is_llama),
        has_other_texts_(has_other_texts) {}

  const FactOptions& options() const { return options_; }
  bool is_llama() const { return is_llama_; }

  // A state of profile `default`; "" for a block that was never fed: the facts of its options.
  absl::StatusOr<FactState> Read(std::string_view state) const;

  bool HasTexts(double max_trust) const override;
  std::optional<std::string> LimitedOptions(const std::string& options_json,
                                            double max_trust) const override;
  absl::StatusOr<StateWithout> OnMessagesGone(const BlockState& state,
                                              const GoneMessages& gone) const override;
  absl::StatusOr<StateInTime> OnTime(std::string_view state, std::int64_t now_us) const override;
  absl::StatusOr<UndoneChange> UndoChange(std::string_view state, std::int64_t change,
                                          const FactJob& caller) const override;
  absl::StatusOr<EditedFacts> EditFact(std::string_view state, const FactEdit& edit,
                                       const FactJob& caller) const override;
  absl::StatusOr<std::shared_ptr<const Block>> Make(
      const BlockSettings& settings, const std::string& field,
      const BlockEnvironment& environment) const override;

 private:
  const FactOptions options_;
  const bool is_llama_;
  const bool has_other_texts_;  // Beside the facts that it begins with.
};

std::shared_ptr<const BlockTraits> ReadFactTraits(const BlockSettings& settings,
                                                  const std::string& field, Profile profile);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_FACT_TRAITS_H_
