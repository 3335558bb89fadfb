// The option `ttl`: how long what a block knows holds.
#ifndef MEMORYD_CORE_BLOCKS_BLOCK_TTL_H_
#define MEMORYD_CORE_BLOCKS_BLOCK_TTL_H_

#include <cstdint>

#include "core/model/session_config.h"

namespace memoryd {

// In microseconds; 0: for ever. `settings` are a session's, and so were checked; whether the kind
// has the option is for the caller to know.
std::int64_t BlockTtlUs(const BlockSettings& settings);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_BLOCK_TTL_H_
