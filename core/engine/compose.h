// What a Get returns: a pure function of a session.
#ifndef MEMORYD_CORE_ENGINE_COMPOSE_H_
#define MEMORYD_CORE_ENGINE_COMPOSE_H_

#include "core/engine/engine.h"
#include "core/engine/session.h"

namespace memoryd {

// `llama-index` returns all active messages; `default` leaves the oldest whole turns out when they
// would exceed the token limit. Cost grows with what is returned.
Context Compose(const Session& session);

}  // namespace memoryd

#endif  // MEMORYD_CORE_ENGINE_COMPOSE_H_
