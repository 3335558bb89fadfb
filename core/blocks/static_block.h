// A block that always says the same.
#ifndef MEMORYD_CORE_BLOCKS_STATIC_BLOCK_H_
#define MEMORYD_CORE_BLOCKS_STATIC_BLOCK_H_

#include <memory>
#include <string>

#include "core/blocks/block_traits.h"

namespace memoryd {

// Says the content of its settings. Options: `template`.
std::shared_ptr<const BlockTraits> ReadStaticTraits(const BlockSettings& settings,
                                                    const std::string& field, Profile profile);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_STATIC_BLOCK_H_
