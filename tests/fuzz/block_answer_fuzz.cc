// Any bytes as a model's answer to a block.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/blocks/entity_block.h"
#include "core/blocks/fact_changes.h"
#include "core/blocks/fact_state.h"
#include "core/blocks/fact_text.h"
#include "core/blocks/summary_block.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view answer(reinterpret_cast<const char*>(data), size);
  memoryd::LlamaFacts(answer);
  memoryd::Require(memoryd::ReadSummary(answer, 100).size() <= 100);
  const memoryd::FactAnswer facts = memoryd::ReadFactAnswer(answer);
  memoryd::Require(facts.understood || facts.facts.empty());
  const memoryd::EntityAnswer entities = memoryd::ReadEntityAnswer(answer);
  memoryd::Require(entities.understood || entities.entities.empty());

  // Taken in and condensed, no fact is lost, and what is stored is read back.
  memoryd::FactState state;
  const std::vector<memoryd::FactSource> sources = {{"m1", true}, {"m2", false}};
  const memoryd::FactJob job{"job", 1};
  memoryd::TakeIn(state, facts.facts, sources, job);
  memoryd::Condense(state, facts.facts, job);
  memoryd::Evict(state, 3, job);
  memoryd::Require(state.facts.size() <= 3);
  memoryd::Require(state.history.size() >= memoryd::kMaxPastFacts ||
                   static_cast<std::int64_t>(state.facts.size() + state.history.size()) ==
                       state.next_id - 1);
  const auto back = memoryd::FactState::FromJson(state.ToJson());
  memoryd::Require(back.ok() && *back == state);
  return 0;
}
