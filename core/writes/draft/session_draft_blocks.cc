// What becomes of blocks and of the jobs that feed them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/blocks/block_traits.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/usage_state.h"
#include "core/writes/draft/session_draft.h"

namespace memoryd {

void SessionDraft::AddJobs(const ActiveView& view, const std::vector<std::size_t>& rounds) {
  std::size_t first = 0;
  for (const std::size_t round : rounds) {
    const PositionRange range{view.at(first).position, view.at(first + round - 1).position + 1};
    first += round;
    for (const BlockSettings& block : config_->blocks) {
      if (block.traits->feed() == BlockFeed::kArchived) AddJob(block.name, row_.generation, range);
    }
  }
}

void SessionDraft::AddPutJobs(const std::vector<MessagePtr>& messages) {
  if (messages.empty()) return;
  const PositionRange range{messages.front()->position, messages.back()->position + 1};
  for (const BlockSettings& block : config_->blocks) {
    if (block.traits->feed() == BlockFeed::kPut) AddJob(block.name, row_.generation, range);
  }
}

void SessionDraft::MakeBlockGeneration() {
  // 0 says that no block has taken anything in.
  while (row_.block_generation == 0) row_.block_generation = random_();
}

void SessionDraft::AddJob(const std::string& block, std::uint64_t message_generation,
                          PositionRange range) {
  MakeBlockGeneration();
  BlockState& state = ChangeBlock(block);
  Job& job = jobs_.emplace_back();
  job.key.generation = row_.block_generation;
  job.key.block = block;
  job.key.number = state.next++;
  job.message_generation = message_generation;
  job.begin = range.begin;
  job.end = range.end;
  job.create_us = job.update_us = now_us_;
}

void SessionDraft::LeaseJobs(std::uint64_t lease, std::int64_t lease_us) {
  for (Job& job : jobs_) {
    job.lease = lease;
    job.lease_until_us = lease_us;
    job.attempts = 1;
  }
}

const BlockSettings* SessionDraft::FindBlockSettings(const std::string& name) const {
  const auto settings =
      std::find_if(config_->blocks.begin(), config_->blocks.end(),
                   [&name](const BlockSettings& block) { return block.name == name; });
  return settings == config_->blocks.end() ? nullptr : &*settings;
}

const BlockState* SessionDraft::FindBlock(const std::string& name) const {
  const auto changed = changed_blocks_.find(name);
  if (changed != changed_blocks_.end()) return &changed->second;
  if (base_blocks_removed_) return nullptr;
  const auto base = base_.blocks.find(name);
  return base == base_.blocks.end() ? nullptr : base->second.get();
}

BlockState& SessionDraft::ChangeBlock(const std::string& name) {
  const BlockState* const current = FindBlock(name);
  BlockState state = current == nullptr ? BlockState() : *current;
  state.name = name;
  state.update_us = now_us_;
  return changed_blocks_.insert_or_assign(name, std::move(state)).first->second;
}

void SessionDraft::CancelJobs() {
  if (row_.block_generation == 0) return;
  cancel_jobs_ = true;
  jobs_.clear();
  std::vector<std::string> waiting;
  const auto note = [this, &waiting](const std::string& name) {
    const BlockState* const state = FindBlock(name);
    if (state != nullptr && state->done + 1 < state->next) waiting.push_back(name);
  };
  for (const BlockSettings& block : config_->blocks) note(block.name);
  note(std::string(kRetrievalBlock));
  for (const std::string& name : waiting) {
    BlockState& state = ChangeBlock(name);
    state.done = state.next - 1;
  }
}

void SessionDraft::RemoveBlock(const std::string& name) {
  if (FindBlock(name) == nullptr) return;
  BlockState& state = ChangeBlock(name);
  for (const EntryRange& stored : EntriesOf(state)) {
    AddGarbage(stored.generation, stored.positions);
  }
  state.entry_generation = 0;
  state.next_entry = 1;
  state.state.clear();
  CancelJobsOf(state);
}

void SessionDraft::CancelJobsOf(BlockState& state) {
  while (state.done + 1 < state.next) {
    JobKey job;
    job.generation = row_.block_generation;
    job.block = state.name;
    job.number = ++state.done;
    ended_jobs_.push_back({std::move(job), JobState::kCancelled, {}, {}});
  }
}

void SessionDraft::RemoveBlocks() {
  if (row_.block_generation == 0) return;
  for (const BlockSettings& block : config_->blocks) {
    const BlockState* const state = FindBlock(block.name);
    if (state == nullptr) continue;
    for (const EntryRange& stored : EntriesOf(*state)) {
      AddGarbage(stored.generation, stored.positions);
    }
  }
  garbage_.push_back({row_.block_generation, 0, 1});
  row_.block_generation = 0;
  base_blocks_removed_ = true;
  changed_blocks_.clear();
  jobs_.clear();
  cancel_jobs_ = false;
}

void SessionDraft::RemoveBlocksButUsage() {
  const BlockState* const state = FindBlock(std::string(kUsageBlock));
  const Usage usage = state == nullptr ? Usage() : DecodeUsage(state->state);
  RemoveBlocks();
  AddUsage(usage);
}

void SessionDraft::AddUsage(const Usage& usage) {
  if (!exists() || usage == Usage()) return;
  while (row_.block_generation == 0) row_.block_generation = random_();
  BlockState& state = ChangeBlock(std::string(kUsageBlock));
  Usage total = DecodeUsage(state.state);
  state.state = EncodeUsage(total += usage);
}

std::int64_t SessionDraft::TellBlocks(const GoneMessages& gone) {
  std::int64_t retired = 0;
  for (const BlockSettings& block : config_->blocks) {
    const BlockState* const state = FindBlock(block.name);
    if (state == nullptr) continue;
    auto after = block.traits->OnMessagesGone(*state, gone);
    // A state that can't be read has nothing to show; that is no reason to keep the message.
    if (!after.ok() || !after->state.has_value()) continue;
    ChangeBlock(block.name).state = *std::move(after->state);
    retired += after->retired_facts;
  }
  return retired;
}

}  // namespace memoryd
