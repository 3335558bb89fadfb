// What becomes of the entries of blocks when messages are taken out or changed.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/blocks/block.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/entry_log.h"
#include "core/llm/model.h"
#include "core/model/job.h"
#include "core/model/session_config.h"
#include "core/sessions/session_info.h"
#include "core/writes/commands/jobs.h"
#include "core/writes/draft/fed_state.h"
#include "core/writes/draft/session_draft.h"

namespace memoryd {

void SessionDraft::HideEntries(const std::vector<NumberRange>& messages) {
  if (messages.empty()) return;
  TellBlocks({messages, {}, /*changed=*/false, now_us_, random_});
}

void SessionDraft::HideChangedEntries(std::int64_t position) {
  // Active messages are in no entries.
  if (IsActive(row_, position)) return;
  const NumberRange message{position, position + 1};
  TellBlocks({{&message, 1}, {}, /*changed=*/true, now_us_, random_});
}

std::int64_t SessionDraft::EntriesDueUs() const {
  std::int64_t due_us = 0;
  for (const BlockSettings& block : config_->blocks) {
    const BlockState* const state =
        block.traits->has_entries() ? blocks_.Find(block.name) : nullptr;
    if (state == nullptr) continue;
    // One that can't be read shows no entries.
    const std::int64_t at_us =
        memoryd::EntriesDueUs(*state, block.traits->ttl_us(), now_us_).value_or(0);
    if (at_us > 0) due_us = due_us == 0 ? at_us : std::min(due_us, at_us);
  }
  return due_us;
}

void SessionDraft::EmbedEntries() {
  if (!exists()) return;
  for (const BlockSettings& block : config_->blocks) {
    const BlockState* const found =
        block.traits->has_entries() ? blocks_.Find(block.name) : nullptr;
    if (found == nullptr) continue;
    auto embeddings = StateWithNext(found->state);
    if (!embeddings.has_value()) continue;
    NextEmbeddings& made = *embeddings->next;
    if (made.job > found->done) continue;
    if (made.done < found->next_entry) {
      // How far it comes is seen when it runs.
      blocks_.AddJob(block.name, found->entry_generation, {made.done, found->next_entry});
      BlockState& state = blocks_.Change(block.name);
      while (made.generation == 0) made.generation = random_.Next();
      made.next_entry = state.next_entry;
      made.job = state.next - 1;
      state.state = embeddings->ToJson();
      continue;
    }
    BlockState& state = blocks_.Change(block.name);
    blocks_.AddGarbage(state.entry_generation, {0, state.next_entry});
    while (made.generation == 0) made.generation = random_.Next();
    state.entry_generation = made.generation;
    embeddings->source = std::move(made.source);
    embeddings->look_again = 0;
    embeddings->next.reset();
    state.state = embeddings->ToJson();
  }
}

void SessionDraft::ChangeEntryEmbedder(const BlockSettings& block) {
  const BlockState* const found = block.traits->has_entries() ? blocks_.Find(block.name) : nullptr;
  if (found == nullptr || found->entry_generation == 0) return;
  auto embeddings = EmbeddingState::FromJson(found->state);
  // One that can't be read a job tells of.
  if (!embeddings.ok()) return;
  const BlockSettings* const before = FindBlockSettings(block.name);
  if (embeddings->source.embedder.empty() && before != nullptr) {
    const ModelName& named = before->traits->embedder();
    embeddings->source.embedder = named.model;
    embeddings->source.worker = named.worker;
  }
  const ModelName& now = block.traits->embedder();
  const EmbeddingSource& last =
      embeddings->next.has_value() ? embeddings->next->source : embeddings->source;
  const bool whole = embeddings->next.has_value() || embeddings->look_again == 0;
  if (whole && last.IsNamed(now.worker, now.model)) return;
  BlockState& state = blocks_.Change(block.name);
  blocks_.DropNextEntries(state);
  embeddings->next.reset();
  // Back to what made those that serve, of which none may be missing.
  if (!embeddings->source.IsNamed(now.worker, now.model) || embeddings->look_again > 0) {
    EmbeddingSource& source = embeddings->next.emplace().source;
    source.embedder = now.model;
    source.worker = now.worker;
  }
  state.state = embeddings->ToJson();
}

std::string SessionDraft::StateAfter(const JobOutcome& outcome, const BlockState& state) {
  const BlockSettings* const settings = FindBlockSettings(outcome.job.block);
  if (settings == nullptr || !settings->traits->has_entries()) return outcome.block_state;
  auto after = EmbeddingState::FromJson(outcome.block_state);
  auto now = EmbeddingState::FromJson(state.state);
  if (!after.ok() || !now.ok()) return outcome.block_state;
  after->log = std::move(now->log);
  if (EmbedsEntries(outcome, state)) {
    const NextEmbeddings& made = *now->next;
    if (after->next.has_value() && after->next->generation == made.generation) {
      after->next->done = outcome.entries_to;
      after->next->next_entry = std::max(made.next_entry, outcome.entries_to);
    } else {
      // Another model has answered: it begins with the first entry.
      blocks_.AddGarbage(made.generation, {0, made.next_entry});
    }
    return after->ToJson();
  }
  if (outcome.entry_messages.empty()) {
    // Nothing has been fed yet: no state says so.
    return *after == EmbeddingState() ? outcome.block_state : after->ToJson();
  }
  std::int64_t number = state.next_entry;
  after->log.Open(number, random_.Next());
  const std::int64_t fed_to = after->log.fed_to;
  if (after->next.has_value() && after->look_again == 0 && !outcome.entries.empty()) {
    after->look_again = number;
  }
  for (const EntryMessages& of : outcome.entry_messages) {
    after->log.NoteStored(number++, {of.begin, of.end}, of.ingest_us > 0 ? of.ingest_us : now_us_,
                          /*late=*/of.begin < fed_to);
  }
  return after->ToJson();
}

}  // namespace memoryd
