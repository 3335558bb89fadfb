// What models have taken for a session, as it is stored.
#ifndef MEMORYD_CORE_BLOCKS_USAGE_STATE_H_
#define MEMORYD_CORE_BLOCKS_USAGE_STATE_H_

#include <string>
#include <string_view>

#include "core/model/job.h"

namespace memoryd {

// Under this name, which no caller can give a block, a session's row of a block says in its `state`
// what models have taken for the session so far. It has no jobs and no entries.
inline constexpr std::string_view kUsageBlock = ".usage";

std::string EncodeUsage(const Usage& usage);
// Nothing for "", and for what EncodeUsage() did not write: a count must not hold up what it
// counts.
Usage DecodeUsage(std::string_view state);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_USAGE_STATE_H_
