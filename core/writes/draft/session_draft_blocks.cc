// What becomes of blocks and of the jobs that feed them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/blocks/block_traits.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session_config.h"
#include "core/policy/active_view.h"
#include "core/storage/store.h"
#include "core/writes/draft/session_draft.h"

namespace memoryd {

void SessionDraft::AddJobs(const ActiveView& view, const std::vector<std::size_t>& rounds) {
  std::size_t first = 0;
  for (const std::size_t round : rounds) {
    const PositionRange range{view.at(first).position, view.at(first + round - 1).position + 1};
    first += round;
    for (const BlockSettings& block : config_->blocks) {
      if (block.traits->feed() == BlockFeed::kArchived)
        blocks_.AddJob(block.name, row_.generation, range);
    }
  }
}

void SessionDraft::AddPutJobs(const std::vector<MessagePtr>& messages) {
  if (messages.empty()) return;
  const PositionRange range{messages.front()->position, messages.back()->position + 1};
  for (const BlockSettings& block : config_->blocks) {
    if (block.traits->feed() == BlockFeed::kPut) blocks_.AddJob(block.name, row_.generation, range);
  }
}

const BlockSettings* SessionDraft::FindBlockSettings(const std::string& name) const {
  const auto settings =
      std::find_if(config_->blocks.begin(), config_->blocks.end(),
                   [&name](const BlockSettings& block) { return block.name == name; });
  return settings == config_->blocks.end() ? nullptr : &*settings;
}

void SessionDraft::RemoveBlocksButUsage() {
  const Usage usage = blocks_.usage();
  blocks_.RemoveAll(config_->blocks);
  AddUsage(usage);
}

void SessionDraft::AddUsage(const Usage& usage) {
  if (exists() && usage != Usage()) blocks_.AddUsage(usage);
}

std::int64_t SessionDraft::TellBlocks(const GoneMessages& gone) {
  std::int64_t retired = 0;
  for (const BlockSettings& block : config_->blocks) {
    const BlockState* const state = blocks_.Find(block.name);
    if (state == nullptr) continue;
    auto after = block.traits->OnMessagesGone(*state, gone);
    // A state that can't be read has nothing to show; that is no reason to keep the message.
    if (!after.ok() || !after->state.has_value()) continue;
    blocks_.Change(block.name).state = *std::move(after->state);
    retired += after->retired_facts;
  }
  return retired;
}

}  // namespace memoryd
