#include "core/reads/compose.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/model/message.h"
#include "core/model/session_config.h"
#include "core/policy/active_view.h"
#include "core/policy/policy.h"
#include "core/sessions/session.h"

namespace memoryd {
namespace {

// Whether retention or DeleteMessage may have taken one half of a call and its results. What the
// library's own flush leaves stays as the library leaves it.
bool MayHoldHalves(const Session& session) {
  return session.row.archived_count == 0 &&
         (session.config->retention.DropsMessages() || session.row.edit_revision > 0);
}

// Returns the tokens of what is left out.
std::int64_t AddWholeUnits(const ActiveView& view, std::vector<MessagePtr>& messages) {
  std::int64_t left_out = 0;
  for (std::size_t i = 0; i < view.size(); ++i) left_out += view.at(i).token_count;
  for (const std::size_t i : WholeUnits(view)) {
    messages.push_back(view.pointer(i));
    left_out -= view.at(i).token_count;
  }
  return left_out;
}

std::int64_t PinnedTokens(const Session& session) {
  std::int64_t tokens = 0;
  for (const MessagePtr& message : session.pinned) tokens += message->token_count;
  return tokens;
}

}  // namespace

std::int64_t TokensWithoutLimit(const Session& session) {
  if (session.config->counting.profile == Profile::kLlamaIndex) return Compose(session).token_count;
  return DefaultWindow(ActiveView(session.active, 0, {}), session.opening.get(),
                       PinnedTokens(session), std::numeric_limits<std::int64_t>::max())
      .tokens;
}

Context Compose(const Session& session, std::int64_t block_tokens) {
  Context context;
  context.limit = session.config->token_limit;
  if (!session.exists()) return context;
  context.revision = session.row.revision;
  context.generation = session.row.generation;
  const ActiveView view(session.active, 0, {});
  context.messages = session.pinned;
  if (session.config->counting.profile == Profile::kLlamaIndex) {
    context.token_count = session.row.active_tokens + block_tokens;
    if (MayHoldHalves(session)) {
      context.token_count -= AddWholeUnits(view, context.messages);
    } else {
      context.messages.insert(context.messages.end(), session.active.begin(), session.active.end());
    }
    context.over_limit_tokens = std::max<std::int64_t>(0, context.token_count - context.limit);
    return context;
  }
  // Blocks that may not be cut take their place before the oldest turns.
  const Window window =
      DefaultWindow(view, session.opening.get(), PinnedTokens(session) + block_tokens,
                    session.config->token_limit);
  context.token_count = window.tokens;
  context.over_limit_tokens = window.over_limit_tokens;
  context.messages.reserve(context.messages.size() + window.messages.size() + 1);
  if (window.opening) context.messages.push_back(session.opening);
  for (const std::size_t i : window.messages) context.messages.push_back(view.pointer(i));
  return context;
}

}  // namespace memoryd
