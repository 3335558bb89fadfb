#include "core/sessions/session_blocks.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/blocks/block.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/message_embedder.h"
#include "core/llm/model.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/sessions/session_cache.h"
#include "core/sessions/session_errors.h"
#include "core/storage/store.h"

namespace memoryd {

absl::StatusOr<std::shared_ptr<const BlockSet>> SessionBlocks::Of(
    CachedSession& session, const std::shared_ptr<const SessionConfig>& config) const {
  {
    MutexLock lock(session.mutex);
    if (session.blocks_of == config) return session.blocks;
  }
  auto blocks = std::make_shared<BlockSet>();
  MEMORYD_ASSIGN_OR_RETURN(*blocks,
                           MakeBlocks(config->blocks, config->counting.profile, environment_));
  MutexLock lock(session.mutex);
  session.blocks = blocks;
  session.blocks_of = config;
  return blocks;
}

absl::Status SessionBlocks::Check(const SessionSettings& settings) const {
  if (!settings.blocks.has_value()) return absl::OkStatus();
  return MakeBlocks(*settings.blocks, settings.profile.value_or(Profile::kDefault), environment_)
      .status();
}

std::shared_ptr<const Block> SessionBlocks::MessageEmbedderOf(const SessionConfig& config) const {
  if (!config.EmbedsMessages()) return nullptr;
  const auto find_rows = [this](const SessionKey& key, std::uint64_t generation, std::int64_t begin,
                                std::int64_t end) -> absl::StatusOr<std::vector<std::int64_t>> {
    MEMORYD_ASSIGN_OR_RETURN(const std::vector<RowSize> rows,
                             store_.ReadSizes(key, generation, {begin, end}, end - begin));
    std::vector<std::int64_t> positions;
    positions.reserve(rows.size());
    for (const RowSize& row : rows) positions.push_back(row.position);
    return positions;
  };
  return std::make_shared<const MessageEmbedder>(
      ModelName{config.ranking.embedder_worker, config.ranking.embedder}, environment_, find_rows);
}

absl::StatusOr<std::shared_ptr<const Block>> SessionBlocks::FindFed(CachedSession& session,
                                                                    const std::string& name) const {
  std::shared_ptr<const SessionConfig> config;
  {
    MutexLock lock(session.mutex);
    config = session.session.config;
  }
  if (name == kRetrievalBlock) return MessageEmbedderOf(*config);
  MEMORYD_ASSIGN_OR_RETURN(const std::shared_ptr<const BlockSet> blocks, Of(session, config));
  for (const std::shared_ptr<const Block>& block : *blocks) {
    if (block->name() == name && (block->feeds() || block->has_entries())) return block;
  }
  return nullptr;
}

absl::StatusOr<BlockAt> SessionBlocks::Find(CachedSession& session, const std::string& name) const {
  BlockAt at;
  std::shared_ptr<const SessionConfig> config;
  {
    MutexLock lock(session.mutex);
    if (!session.session.exists()) return SessionNotFound();
    config = session.session.config;
    at.revision = session.session.row.revision;
    const auto state = session.session.blocks.find(name);
    if (state != session.session.blocks.end()) at.state = state->second;
  }
  MEMORYD_ASSIGN_OR_RETURN(const std::shared_ptr<const BlockSet> blocks, Of(session, config));
  for (std::size_t i = 0; i < blocks->size(); ++i) {
    if ((*blocks)[i]->name() != name) continue;
    at.settings = config->blocks[i];
    at.block = (*blocks)[i];
    return at;
  }
  return BlockNotFound();
}

}  // namespace memoryd
