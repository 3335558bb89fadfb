// What a Get returns: a pure function of a session.
#ifndef MEMORYD_CORE_ENGINE_COMPOSE_H_
#define MEMORYD_CORE_ENGINE_COMPOSE_H_

#include <cstdint>

#include "core/engine/engine.h"
#include "core/engine/session.h"

namespace memoryd {

// `llama-index` returns all active messages; `default` leaves the oldest whole turns out when they
// would exceed the token limit. Cost grows with what is returned.
// `block_tokens` are taken up by what blocks say, which stands beside the messages.
Context Compose(const Session& session, std::int64_t block_tokens = 0);

}  // namespace memoryd

#endif  // MEMORYD_CORE_ENGINE_COMPOSE_H_
