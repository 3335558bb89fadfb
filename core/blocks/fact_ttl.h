// Facts that go by themselves: the option `ttl` of blocks of kind fact-extraction.
#ifndef MEMORYD_CORE_BLOCKS_FACT_TTL_H_
#define MEMORYD_CORE_BLOCKS_FACT_TTL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/blocks/fact_state.h"
#include "core/model/session_config.h"

namespace memoryd {

// For how long a fact holds that nobody says again, in microseconds; 0: for ever, or the block has
// no facts with times. `settings` are a session's, and so were checked.
std::int64_t FactTtlUs(const BlockSettings& settings, Profile profile);

// Moves the facts that were last said `ttl_us` ago or longer into the history, together; returns
// how many. Those that were configured stay.
std::size_t RetireOldFacts(FactState& state, std::int64_t ttl_us, const FactJob& job);

struct FactsInTime {
  std::optional<std::string> state;  // Without what is over; nullopt: nothing is.
  std::int64_t next_us = 0;          // When the next of them is over; 0: never.
};

// What becomes of a block's state by its `ttl` at `now_us`. DATA_LOSS when it can't be read.
absl::StatusOr<FactsInTime> RetireOldFacts(const BlockSettings& settings, Profile profile,
                                           std::string_view state, std::int64_t now_us);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_FACT_TTL_H_
