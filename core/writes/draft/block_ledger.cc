#include "core/writes/draft/block_ledger.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/random_source.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/usage_state.h"
#include "core/model/job.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/sessions/oldest_messages.h"
#include "core/sessions/session.h"
#include "core/storage/store.h"

namespace memoryd {

BlockLedger::BlockLedger(const Session& base, std::int64_t now_us, RandomSource& random)
    : base_(base.blocks),
      now_us_(now_us),
      random_(random),
      generation_(base.row.block_generation) {}

void BlockLedger::MakeGeneration() {
  // 0 says that no block has taken anything in.
  while (generation_ == 0) generation_ = random_.Next();
}

const BlockState* BlockLedger::Find(const std::string& name) const {
  const auto changed = changed_.find(name);
  if (changed != changed_.end()) return &changed->second;
  if (base_removed_) return nullptr;
  const auto base = base_.find(name);
  return base == base_.end() ? nullptr : base->second.get();
}

BlockState& BlockLedger::Change(const std::string& name) {
  const BlockState* const current = Find(name);
  BlockState state = current == nullptr ? BlockState() : *current;
  state.name = name;
  state.update_us = now_us_;
  return changed_.insert_or_assign(name, std::move(state)).first->second;
}

void BlockLedger::Remove(const std::string& name) {
  if (Find(name) == nullptr) return;
  BlockState& state = Change(name);
  for (const EntryRange& stored : EntriesOf(state)) {
    AddGarbage(stored.generation, stored.positions);
  }
  state.entry_generation = 0;
  state.next_entry = 1;
  state.state.clear();
  CancelJobsOf(state);
}

void BlockLedger::RemoveAll(const std::vector<BlockSettings>& blocks) {
  if (generation_ == 0) return;
  for (const BlockSettings& block : blocks) {
    const BlockState* const state = Find(block.name);
    if (state == nullptr) continue;
    for (const EntryRange& stored : EntriesOf(*state)) {
      AddGarbage(stored.generation, stored.positions);
    }
  }
  AddGarbage(generation_, {0, 1});
  generation_ = 0;
  base_removed_ = true;
  changed_.clear();
  jobs_.clear();
  cancel_jobs_ = false;
}

void BlockLedger::Replace(std::uint64_t generation, const std::vector<BlockState>& states) {
  generation_ = generation;
  base_removed_ = true;
  for (const BlockState& state : states) changed_[state.name] = state;
}

void BlockLedger::Announce(std::uint64_t generation, const std::vector<BlockState>& states) {
  generation_ = generation;
  for (const BlockState& announced : states) {
    if (announced.entry_generation == 0) continue;
    BlockState& state = Change(announced.name);
    state.entry_generation = announced.entry_generation;
    state.next_entry = announced.next_entry;
  }
}

Usage BlockLedger::usage() const {
  const BlockState* const state = Find(std::string(kUsageBlock));
  return state == nullptr ? Usage() : DecodeUsage(state->state);
}

void BlockLedger::AddUsage(const Usage& usage) {
  MakeGeneration();
  BlockState& state = Change(std::string(kUsageBlock));
  Usage total = DecodeUsage(state.state);
  state.state = EncodeUsage(total += usage);
}

void BlockLedger::AddJob(const std::string& block, std::uint64_t message_generation,
                         PositionRange range) {
  MakeGeneration();
  BlockState& state = Change(block);
  Job& job = jobs_.emplace_back();
  job.key.generation = generation_;
  job.key.block = block;
  job.key.number = state.next++;
  job.message_generation = message_generation;
  job.begin = range.begin;
  job.end = range.end;
  job.create_us = job.update_us = now_us_;
}

void BlockLedger::LeaseJobs(std::uint64_t lease, std::int64_t lease_us) {
  for (Job& job : jobs_) {
    job.lease = lease;
    job.lease_until_us = lease_us;
    job.attempts = 1;
  }
}

void BlockLedger::CancelJobs(const std::vector<BlockSettings>& blocks) {
  if (generation_ == 0) return;
  cancel_jobs_ = true;
  jobs_.clear();
  std::vector<std::string> waiting;
  const auto note = [this, &waiting](const std::string& name) {
    const BlockState* const state = Find(name);
    if (state != nullptr && state->done + 1 < state->next) waiting.push_back(name);
  };
  for (const BlockSettings& block : blocks) note(block.name);
  note(std::string(kRetrievalBlock));
  for (const std::string& name : waiting) {
    BlockState& state = Change(name);
    state.done = state.next - 1;
  }
}

void BlockLedger::CancelJobsOf(BlockState& state) {
  while (state.done + 1 < state.next) {
    JobKey job;
    job.generation = generation_;
    job.block = state.name;
    job.number = ++state.done;
    ended_jobs_.push_back({std::move(job), JobState::kCancelled, {}, {}});
  }
}

std::int64_t BlockLedger::FirstToFeed(const std::vector<BlockSettings>& blocks,
                                      std::uint64_t message_generation) const {
  std::int64_t first = kNothingToFeed;
  for (const BlockSettings& block : blocks) {
    const BlockState* const state = Find(block.name);
    if (state == nullptr) continue;
    std::int64_t made = 0;
    for (const Job& job : jobs_) {
      if (job.key.block != block.name) continue;
      ++made;
      if (job.message_generation == message_generation) first = std::min(first, job.begin);
    }
    // What older jobs are to feed is not known here.
    if (state->done + 1 + made < state->next) return 0;
  }
  return first;
}

std::vector<EntryRange> BlockLedger::EntriesOf(const BlockState& state) {
  std::vector<EntryRange> stored;
  if (state.entry_generation != 0) {
    stored.push_back({state.entry_generation, {0, state.next_entry}});
  }
  if (const auto embeddings = StateWithNext(state.state); embeddings.has_value()) {
    stored.push_back({embeddings->next->generation, {0, embeddings->next->next_entry}});
  }
  return stored;
}

bool BlockLedger::EraseEmbedding(std::int64_t position) {
  const BlockState* const state = Find(std::string(kRetrievalBlock));
  if (state == nullptr) return false;
  bool asked = false;
  for (const EntryRange& stored : EntriesOf(*state)) {
    asked = position < stored.positions.end;
    if (asked) EraseEntries({stored.generation, {position, position + 1}});
  }
  return asked;
}

void BlockLedger::DropNextEntries(BlockState& state) {
  auto embeddings = StateWithNext(state.state);
  if (!embeddings.has_value()) return;
  const NextEmbeddings& made = *embeddings->next;
  if (made.generation != 0) AddGarbage(made.generation, {0, made.next_entry});
  embeddings->next.reset();
  state.state = embeddings->ToJson();
}

void BlockLedger::NoteAnswer(const std::string& before, BlockState& state) {
  const std::optional<NextEmbeddings> was = EmbeddingState::FromJsonOrNone(before).next;
  EmbeddingState embeddings = EmbeddingState::FromJsonOrNone(state.state);
  std::optional<NextEmbeddings>& now = embeddings.next;
  if (was.has_value() == now.has_value() &&
      (!was.has_value() || was->generation == now->generation)) {
    return;
  }
  // Others come to all messages of those that are open, and know where their embeddings may stand.
  CancelJobsOf(state);
  if (was.has_value()) AddGarbage(was->generation, {0, was->next_entry});
  if (!now.has_value()) return;
  while (now->generation == 0) now->generation = random_.Next();
  state.state = embeddings.ToJson();
}

void BlockLedger::TakeChange(const SessionKey& key, SessionChange& change) {
  change.entries = std::move(entries_);
  for (const auto& [name, state] : changed_) change.blocks.push_back(state);
  for (Job& job : jobs_) job.key.session = key;
  change.jobs = jobs_;
  for (JobEnd& end : ended_jobs_) end.key.session = key;
  change.ended_jobs = std::move(ended_jobs_);
  if (cancel_jobs_) change.cancel_jobs_of = generation_;
  change.erased_entries.insert(change.erased_entries.end(), erased_entries_.begin(),
                               erased_entries_.end());
  garbage_.MoveTo(change.garbage);
}

void BlockLedger::Store(BlockState state, Session& session,
                        std::shared_ptr<const BlockState>& cached) {
  if (cached != nullptr) session.content_bytes -= ByteSize(*cached);
  session.content_bytes += ByteSize(state);
  cached = std::make_shared<const BlockState>(std::move(state));
}

void BlockLedger::ApplyTo(Session& session) {
  if (base_removed_) {
    for (const auto& [name, state] : session.blocks) session.content_bytes -= ByteSize(*state);
    session.blocks.clear();
  }
  for (auto& [name, state] : changed_) Store(std::move(state), session, session.blocks[name]);
}

}  // namespace memoryd
