// Facts that go by themselves: the option `ttl` of blocks of kind fact-extraction.
#ifndef MEMORYD_CORE_BLOCKS_FACT_TTL_H_
#define MEMORYD_CORE_BLOCKS_FACT_TTL_H_

#include <cstddef>
#include <cstdint>

#include "core/blocks/fact_changes.h"

namespace memoryd {

// Moves the facts that were last said `ttl_us` ago or longer into the history, together; returns
// how many. Those that were configured stay.
std::size_t RetireOldFacts(FactState& state, std::int64_t ttl_us, const FactJob& job);

// When the next fact is that old, in microseconds since the epoch; 0: none ever is.
std::int64_t NextExpiry(const FactState& state, std::int64_t ttl_us);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_FACT_TTL_H_
