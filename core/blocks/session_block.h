// Kind `session`: what another session of the tenant knows.
#ifndef MEMORYD_CORE_BLOCKS_SESSION_BLOCK_H_
#define MEMORYD_CORE_BLOCKS_SESSION_BLOCK_H_

#include <memory>
#include <string>

#include "core/blocks/block_traits.h"

namespace memoryd {

// Shows what environment.sessions says of the other session, and hands messages on to it. Options:
// `session_id`, `accept_short_term_memory`, `template`.
std::shared_ptr<const BlockTraits> ReadSessionTraits(const BlockSettings& settings,
                                                     const std::string& field, Profile profile);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_SESSION_BLOCK_H_
