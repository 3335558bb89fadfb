#include "core/blocks/fact_ttl.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/blocks/fact_changes.h"
#include "core/blocks/fact_state.h"

namespace memoryd {
namespace {

bool IsTimed(const Fact& fact) { return fact.last_us > 0; }

}  // namespace

std::size_t RetireOldFacts(FactState& state, std::int64_t ttl_us, const FactJob& job) {
  std::vector<std::int64_t> old;
  for (const Fact& fact : state.facts) {
    if (IsTimed(fact) && fact.last_us + ttl_us <= job.now_us) old.push_back(fact.id);
  }
  RetireFacts(state, old, job);
  return old.size();
}

std::int64_t NextExpiry(const FactState& state, std::int64_t ttl_us) {
  std::int64_t next_us = 0;
  for (const Fact& fact : state.facts) {
    if (!IsTimed(fact)) continue;
    const std::int64_t due_us = fact.last_us + ttl_us;
    next_us = next_us == 0 ? due_us : std::min(next_us, due_us);
  }
  return next_us;
}

}  // namespace memoryd
