// When the sweeper looks at a session again.
#ifndef MEMORYD_CORE_WRITES_DRAFT_SWEEP_TIMES_H_
#define MEMORYD_CORE_WRITES_DRAFT_SWEEP_TIMES_H_

#include <algorithm>
#include <cstdint>

#include "core/blocks/block_traits.h"
#include "core/model/session_config.h"

namespace memoryd {

// After a Put that could not take out all that is due.
inline constexpr std::int64_t kSoonUs = 1'000'000;
// After the sweeper could not itself.
inline constexpr std::int64_t kLaterUs = 30'000'000;

// Whether parts of a block's state expire.
inline bool HasExpiringState(const SessionConfig& config) {
  return std::any_of(config.blocks.begin(), config.blocks.end(),
                     [](const BlockSettings& block) { return block.traits->expires(); });
}

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_DRAFT_SWEEP_TIMES_H_
