// What a Get returns: a pure function of a session.
#ifndef MEMORYD_CORE_READS_COMPOSE_H_
#define MEMORYD_CORE_READS_COMPOSE_H_

#include <cstdint>

#include "core/reads/context.h"
#include "core/sessions/session.h"

namespace memoryd {

// `llama-index` returns all active messages, but for halves that retention or DeleteMessage made;
// `default` what DefaultWindow() says. Cost grows with what is active.
// `block_tokens` are taken up by what blocks say, which stands beside the messages.
Context Compose(const Session& session, std::int64_t block_tokens = 0);

// Tokens of the messages of a Get, had the session no limit.
std::int64_t TokensWithoutLimit(const Session& session);

}  // namespace memoryd

#endif  // MEMORYD_CORE_READS_COMPOSE_H_
