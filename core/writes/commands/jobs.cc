#include "core/writes/commands/jobs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/blocks/block.h"
#include "core/blocks/block_traits.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/entry_log.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/sessions/session_info.h"
#include "core/storage/store.h"
#include "core/writes/draft/block_ledger.h"
#include "core/writes/draft/fed_state.h"
#include "core/writes/draft/session_draft.h"
#include "core/writes/write.h"

namespace memoryd {
namespace {

// The row of the job's entry `i`, but for where it stands.
MessageDraft EntryRow(const JobOutcome& outcome, std::size_t i, std::int64_t now_us) {
  MessageDraft row;
  row.ingest_us = now_us;
  row.body = outcome.entries[i];
  if (outcome.entry_messages.empty()) return row;
  const EntryMessages& of = outcome.entry_messages[i];
  if (of.ingest_us > 0) row.ingest_us = of.ingest_us;
  if (of.expire_us > 0) row.ids.value().expire_us = of.expire_us;
  return row;
}

// Stores what a job made under `generation`, but for entries of messages that retention has taken
// meanwhile and for those `removed` since it was fed.
void AddEntries(const JobOutcome& outcome, std::uint64_t generation,
                const std::vector<NumberRange>& removed, const SessionRow& session,
                std::int64_t now_us, BlockState& state, BlockLedger& blocks) {
  const bool of_messages = outcome.job.block == kRetrievalBlock;
  const std::vector<std::int64_t>& positions = outcome.entry_positions;
  for (std::size_t i = 0; i < outcome.entries.size(); ++i) {
    if (of_messages && !IsStored(session, positions[i])) continue;
    if (!positions.empty() && HasNumber(removed, positions[i])) continue;
    MessageDraft row = EntryRow(outcome, i, now_us);
    row.position = positions.empty() ? state.next_entry++ : positions[i];
    blocks.AddEntry({generation, MessagePtr(row)});
  }
}

}  // namespace

// A job that is not the next one of its block has ended before, by another server or by a Set or
// Reset: what it found out must not be stored again, or come back. One that began with another
// state than the block has now would take back what changed that; one whose messages were changed
// or deleted since it read them has learnt what nobody says.
SessionDraft::Decision SessionDraft::Apply(const commands::EndJob& end, Write& write) {
  const WriteRequest& request = write.request;
  const JobOutcome& outcome = end.outcome;
  const BlockState* const current = exists() && blocks_.generation() == outcome.job.generation
                                        ? blocks_.Find(outcome.job.block)
                                        : nullptr;
  if (current == nullptr || current->done + 1 != outcome.job.number ||
      outcome.job.number >= current->next) {
    return Unchanged(request);
  }
  const bool anew = EmbedsEntries(outcome, *current);
  const auto removed = anew ? RemovedSince(outcome, *current) : std::vector<NumberRange>();
  // What was changed or deleted meanwhile is hidden, and taken out, wherever it stands.
  const bool edited = !anew && row_.edit_revision > outcome.read_revision;
  const BlockSettings* const settings = FindBlockSettings(outcome.job.block);
  const bool outdated = edited || !removed.has_value() || !IsFedState(outcome, *current, settings);
  if (outcome.state == JobState::kDone && outdated) {
    return Refused(Error(absl::StatusCode::kAborted, "BLOCK_CHANGED",
                         "the block has changed since the job was fed to it"));
  }
  BlockState& state = blocks_.Change(outcome.job.block);
  state.done = outcome.job.number;
  if (outcome.state == JobState::kDone) {
    const bool embeds = outcome.job.block == kRetrievalBlock;
    std::string after = StateAfter(outcome, state);
    const std::string before = std::exchange(state.state, std::move(after));
    if (embeds) blocks_.NoteAnswer(before, state);
    if (!outcome.entries.empty()) {
      while (state.entry_generation == 0) state.entry_generation = random_.Next();
    }
    const std::uint64_t generation = (embeds || anew) && !outcome.entries.empty()
                                         ? BlockLedger::EntriesOf(state).back().generation
                                         : state.entry_generation;
    AddEntries(outcome, generation, *removed, row_, now_us_, state, blocks_);
  } else if (anew) {
    blocks_.DropNextEntries(state);
  }
  if (settings != nullptr) {
    const auto after = settings->traits->OnTime(state.state, now_us_);
    if (after.ok()) LookAt(after->next_us);
  }
  blocks_.EndJob({outcome.job, outcome.state, outcome.error, outcome.usage});
  WriteResult result;
  result.job_number = outcome.job.number;
  return Stored(request, std::move(result));
}

// Later jobs went on meanwhile, so the messages are fed once more behind them.
SessionDraft::Decision SessionDraft::Apply(const commands::RetryJob& retry, Write& write) {
  const WriteRequest& request = write.request;
  const Job& failed = retry.failed;
  const auto is_block = [&failed](const BlockSettings& block) {
    return block.name == failed.key.block && block.traits->feed() != BlockFeed::kNever;
  };
  bool is_there = std::any_of(config_->blocks.begin(), config_->blocks.end(), is_block);
  if (failed.key.block == kRetrievalBlock) {
    // Since it was emptied, jobs of its own come to those messages.
    const BlockState* const state = blocks_.Find(failed.key.block);
    const std::vector<EntryRange> made =
        state == nullptr ? std::vector<EntryRange>() : BlockLedger::EntriesOf(*state);
    is_there =
        config_->EmbedsMessages() && !made.empty() && failed.end <= made.back().positions.end;
  }
  if (!exists() || blocks_.generation() != failed.key.generation || !is_there ||
      row_.generation != failed.message_generation || failed.begin < row_.floor) {
    return Refused(Error(absl::StatusCode::kFailedPrecondition, "JOB_OBSOLETE",
                         "job_id: what the job was to feed is gone, or its block is"));
  }
  blocks_.AddJob(failed.key.block, failed.message_generation, {failed.begin, failed.end});
  WriteResult result;
  result.job_number = blocks_.jobs().back().key.number;
  return Stored(request, std::move(result));
}

// What has been taken is part of every commit; this is one for its sake.
SessionDraft::Decision SessionDraft::Apply(const commands::StoreUsage& /*command*/, Write& write) {
  const WriteRequest& request = write.request;
  if (exists()) return Stored(request, WriteResult());
  return Unchanged(request);
}

// A Query has asked the session's embedder, and another model has answered than made what it was to
// be compared with.
SessionDraft::Decision SessionDraft::Apply(const commands::NoteEmbedder& note, Write& write) {
  const WriteRequest& request = write.request;
  Decision unchanged = Unchanged(request);
  const EmbeddingSource& by = note.source;
  const BlockState* const found = exists() ? blocks_.Find(std::string(kRetrievalBlock)) : nullptr;
  if (found == nullptr || !config_->EmbedsMessages() ||
      !by.IsNamed(config_->ranking.embedder_worker, config_->ranking.embedder)) {
    return unchanged;
  }
  EmbeddingState embeddings = EmbeddingState::FromJsonOrNone(found->state);
  // The jobs that are under way see for themselves what answers them.
  if (embeddings.next.has_value()) return unchanged;
  const absl::StatusOr<bool> same = embeddings.Answered(by);
  if (!same.ok() || *same) return unchanged;
  BlockState& state = blocks_.Change(std::string(kRetrievalBlock));
  const std::string before = std::exchange(state.state, embeddings.ToJson());
  blocks_.NoteAnswer(before, state);
  return Stored(request, WriteResult());
}

}  // namespace memoryd
