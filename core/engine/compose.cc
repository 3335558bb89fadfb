#include "core/engine/compose.h"

#include <algorithm>

#include "core/policy/policy.h"

namespace memoryd {

Context Compose(const Session& session, std::int64_t block_tokens) {
  Context context;
  context.limit = session.config->token_limit;
  if (!session.exists()) return context;
  context.revision = session.row.revision;
  context.generation = session.row.generation;
  std::size_t first = 0;
  if (session.config->counting.profile == Profile::kLlamaIndex) {
    context.token_count = session.row.active_tokens + block_tokens;
    context.over_limit_tokens = std::max<std::int64_t>(0, context.token_count - context.limit);
  } else {
    std::int64_t pinned_tokens = 0;
    for (const MessagePtr& message : session.pinned) pinned_tokens += message->token_count;
    // Blocks that may not be cut take their place before the oldest turns.
    const Window window =
        DefaultWindow(ActiveView(session.active, 0, {}), pinned_tokens + block_tokens,
                      session.row.active_tokens - pinned_tokens, session.config->token_limit);
    first = window.first;
    context.token_count = window.tokens;
    context.over_limit_tokens = window.over_limit_tokens;
  }
  context.messages.reserve(session.pinned.size() + session.active.size() - first);
  context.messages.assign(session.pinned.begin(), session.pinned.end());
  context.messages.insert(context.messages.end(),
                          session.active.begin() + static_cast<std::ptrdiff_t>(first),
                          session.active.end());
  return context;
}

}  // namespace memoryd
