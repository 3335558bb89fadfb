// A block that always says the same.
#ifndef MEMORYD_CORE_BLOCKS_STATIC_BLOCK_H_
#define MEMORYD_CORE_BLOCKS_STATIC_BLOCK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/blocks/block_kinds.h"

namespace memoryd {

// Says the content of its settings. Options: `template`.
absl::StatusOr<std::shared_ptr<const Block>> MakeStaticBlock(const BlockSettings& settings,
                                                             const std::string& field,
                                                             Profile profile,
                                                             const BlockEnvironment& environment);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_STATIC_BLOCK_H_
