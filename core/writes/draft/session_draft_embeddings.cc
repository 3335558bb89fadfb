// Which messages are to be embedded, by what, and what takes embeddings out.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/blocks/embedding_state.h"
#include "core/model/job.h"
#include "core/model/ranking_options.h"
#include "core/model/session_config.h"
#include "core/storage/store.h"
#include "core/writes/draft/session_draft.h"

namespace memoryd {
namespace {

// Of a job that has messages embedded: as many as are asked for at once, and held in memory.
constexpr std::int64_t kEmbeddedMessages = 128;

}  // namespace

void SessionDraft::EmbedMessages() {
  if (!exists() || !config_->EmbedsMessages()) return;
  const std::string block(kRetrievalBlock);
  const BlockState* state = blocks_.Find(block);
  if (state != nullptr && state->done + 1 < state->next) return;
  EmbeddingState embeddings =
      state == nullptr ? EmbeddingState() : EmbeddingState::FromJsonOrNone(state->state);
  std::optional<NextEmbeddings>& made = embeddings.next;
  const std::int64_t first =
      row_.pinned.empty() ? row_.floor : std::min(row_.floor, row_.pinned.front());
  const auto jobs_from = [this, first](std::int64_t position) {
    const std::int64_t begin = std::max(first, position);
    return PositionRange{begin, std::min(row_.next_position, begin + kEmbeddedMessages)};
  };
  if (made.has_value()) {
    const PositionRange range = jobs_from(made->next_entry);
    if (!made->caught_up && range.begin < range.end) {
      blocks_.AddJob(block, row_.generation, range);
      made->done = range.begin;
      made->next_entry = range.end;
      made->caught_up = range.end == row_.next_position;
      blocks_.Change(block).state = embeddings.ToJson();
      return;
    }
    BlockState& changed = blocks_.Change(block);
    blocks_.AddGarbage(changed.entry_generation, {0, changed.next_entry});
    changed.entry_generation = made->generation;
    changed.next_entry = made->next_entry;
    embeddings.source = std::move(made->source);
    embeddings.look_again = 0;
    made.reset();
    changed.state = embeddings.ToJson();
    state = &changed;
  }
  std::int64_t next = state == nullptr ? 1 : state->next_entry;
  if (embeddings.look_again > 0) next = std::min(next, embeddings.look_again);
  const PositionRange range = jobs_from(next);
  if (range.begin >= range.end) return;
  blocks_.AddJob(block, row_.generation, range);
  BlockState& changed = blocks_.Change(block);
  while (changed.entry_generation == 0) changed.entry_generation = random_.Next();
  changed.next_entry = std::max(changed.next_entry, range.end);
  if (embeddings.look_again == 0) return;
  embeddings.look_again = range.end < changed.next_entry ? range.end : 0;
  changed.state = embeddings.ToJson();
}

void SessionDraft::ChangeEmbedder(const SessionConfig& config) {
  const std::string block(kRetrievalBlock);
  const RankingOptions& now = config.ranking;
  const RankingOptions& before = config_->ranking;
  const bool same =
      now.embedder == before.embedder && now.embedder_worker == before.embedder_worker;
  if (same && config.EmbedsMessages() == config_->EmbedsMessages()) return;
  const BlockState* const found = blocks_.Find(block);
  if (found == nullptr) return;
  EmbeddingState embeddings = EmbeddingState::FromJsonOrNone(found->state);
  if (!config.EmbedsMessages() || embeddings.source.size == 0) {
    // Nothing is to serve, or can.
    blocks_.Remove(block);
    return;
  }
  if (embeddings.source.embedder.empty()) {
    embeddings.source.embedder = before.embedder;
    embeddings.source.worker = before.embedder_worker;
  }
  BlockState& state = blocks_.Change(block);
  const std::string replaced = state.state;
  embeddings.next.reset();
  if (embeddings.source.IsNamed(now.embedder_worker, now.embedder)) {
    // Back to what made those that serve: they lack what has come or was changed meanwhile.
    embeddings.look_again = 1;
  } else {
    EmbeddingSource& source = embeddings.next.emplace().source;
    source.embedder = now.embedder;
    source.worker = now.embedder_worker;
  }
  state.state = embeddings.ToJson();
  blocks_.NoteAnswer(replaced, state);
}

void SessionDraft::EraseActiveEmbeddings() {
  const BlockState* const found = blocks_.Find(std::string(kRetrievalBlock));
  if (found == nullptr || found->entry_generation == 0) return;
  BlockState& state = blocks_.Change(std::string(kRetrievalBlock));
  // A state that can't be read is mended so.
  EmbeddingState embeddings = EmbeddingState::FromJsonOrNone(state.state);
  ++embeddings.cuts;
  state.state = embeddings.ToJson();
  for (const EntryRange& stored : BlockLedger::EntriesOf(state)) {
    if (row_.archived_count == 0) {
      blocks_.AddGarbage(stored.generation, stored.positions);
      continue;
    }
    blocks_.EraseEntries({stored.generation, {row_.watermark, row_.next_position}});
    if (row_.pinned.empty()) continue;
    blocks_.EraseEntries({stored.generation, {row_.pinned.front(), row_.pinned.back() + 1}});
  }
}

}  // namespace memoryd
