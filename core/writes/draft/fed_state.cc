#include "core/writes/draft/fed_state.h"

#include <optional>
#include <string_view>
#include <vector>

#include "core/blocks/embedding_state.h"
#include "core/blocks/entry_log.h"
#include "core/model/job.h"
#include "core/model/session_config.h"
#include "core/writes/commands/jobs.h"

namespace memoryd {

bool EmbedsEntries(const JobOutcome& outcome, const BlockState& state) {
  if (state.name == kRetrievalBlock) return false;
  const auto embeddings = StateWithNext(state.state);
  return embeddings.has_value() && embeddings->next->job == outcome.job.number;
}

bool IsFedState(const JobOutcome& outcome, const BlockState& state, const BlockSettings* settings) {
  const std::string_view fed = outcome.fed == nullptr ? "" : std::string_view(outcome.fed->state);
  if (fed == state.state) return true;
  if (settings == nullptr || !settings->traits->has_entries()) return false;
  // The sweeper takes out entries at any time: a slow embedder's jobs would never end.
  const auto before = EmbeddingState::FromJson(fed);
  const auto now = EmbeddingState::FromJson(state.state);
  return before.ok() && now.ok() && before->source == now->source && before->next == now->next;
}

std::optional<std::vector<NumberRange>> RemovedSince(const JobOutcome& outcome,
                                                     const BlockState& state) {
  const std::string_view fed = outcome.fed == nullptr ? "" : std::string_view(outcome.fed->state);
  const auto before = EmbeddingState::FromJson(fed);
  const auto now = EmbeddingState::FromJson(state.state);
  if (!before.ok() || !now.ok()) return std::nullopt;
  return now->log.RemovedSince(before->log.removals);
}

}  // namespace memoryd
