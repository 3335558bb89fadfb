// The blocks of sessions, made from their configurations.
#ifndef MEMORYD_CORE_SESSIONS_SESSION_BLOCKS_H_
#define MEMORYD_CORE_SESSIONS_SESSION_BLOCKS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/blocks/block.h"
#include "core/blocks/block_kinds.h"
#include "core/model/job.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/sessions/session_cache.h"
#include "core/storage/store.h"

namespace memoryd {

// A session's block, and its state at one revision.
struct BlockAt {
  BlockSettings settings;
  std::int64_t revision = 0;
  std::shared_ptr<const Block> block;
  std::shared_ptr<const BlockState> state;  // Null: never fed.
};

// Any thread may call any method. What it is given outlives it.
class SessionBlocks {
 public:
  SessionBlocks(Store* store, BlockEnvironment environment)
      : store_(*store), environment_(std::move(environment)) {}

  // Those of `config`, which is or was the session's; made once for each configuration.
  absl::StatusOr<std::shared_ptr<const BlockSet>> Of(
      CachedSession& session, const std::shared_ptr<const SessionConfig>& config) const;

  // OK when the blocks that a session of these settings would have can be made.
  absl::Status Check(const SessionSettings& settings) const;

  // The block that a job feeds, kRetrievalBlock too; null where the session has none of this name
  // that takes messages.
  absl::StatusOr<std::shared_ptr<const Block>> FindFed(CachedSession& session,
                                                       const std::string& name) const;

  // NOT_FOUND `SESSION_NOT_FOUND` or `BLOCK_NOT_FOUND`.
  absl::StatusOr<BlockAt> Find(CachedSession& session, const std::string& name) const;

 private:
  // Null where `config` has no embedder.
  std::shared_ptr<const Block> MessageEmbedderOf(const SessionConfig& config) const;

  Store& store_;
  const BlockEnvironment environment_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_SESSIONS_SESSION_BLOCKS_H_
