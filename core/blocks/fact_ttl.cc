#include "core/blocks/fact_ttl.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "core/blocks/block_ttl.h"

namespace memoryd {
namespace {

bool IsTimed(const Fact& fact) { return fact.last_us > 0; }

}  // namespace

std::int64_t FactTtlUs(const BlockSettings& settings, Profile profile) {
  const bool has_times = settings.kind == "fact-extraction" && profile != Profile::kLlamaIndex;
  return has_times ? BlockTtlUs(settings) : 0;
}

std::size_t RetireOldFacts(FactState& state, std::int64_t ttl_us, const FactJob& job) {
  std::vector<std::int64_t> old;
  for (const Fact& fact : state.facts) {
    if (IsTimed(fact) && fact.last_us + ttl_us <= job.now_us) old.push_back(fact.id);
  }
  RetireFacts(state, old, job);
  return old.size();
}

absl::StatusOr<FactsInTime> RetireOldFacts(const BlockSettings& settings, Profile profile,
                                           std::string_view state, std::int64_t now_us) {
  FactsInTime result;
  const std::int64_t ttl_us = FactTtlUs(settings, profile);
  if (ttl_us == 0 || state.empty()) return result;
  MEMORYD_ASSIGN_OR_RETURN(FactState facts, FactState::FromJson(state));
  if (RetireOldFacts(facts, ttl_us, {"", now_us}) > 0) result.state = facts.ToJson();
  for (const Fact& fact : facts.facts) {
    if (!IsTimed(fact)) continue;
    const std::int64_t due = fact.last_us + ttl_us;
    result.next_us = result.next_us == 0 ? due : std::min(result.next_us, due);
  }
  return result;
}

}  // namespace memoryd
