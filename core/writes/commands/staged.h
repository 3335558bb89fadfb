// Commands that write a session in pieces (docs/adr/0027).
#ifndef MEMORYD_CORE_WRITES_COMMANDS_STAGED_H_
#define MEMORYD_CORE_WRITES_COMMANDS_STAGED_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/storage/store.h"
#include "core/writes/command_traits.h"

namespace memoryd {

// A session that is written in pieces. Until it is published its row is a tombstone, and nobody
// sees it; what becomes of one that never is, see docs/adr/0027.
struct StagedSession {
  // As it will be published, but for revision, times and commit tag. The generations are chosen
  // when it is begun; all else counts when it is published.
  SessionRow row;
  SessionSettings settings;
  std::shared_ptr<const SessionConfig> config;
  // Under row.block_generation, fed by none of its jobs yet.
  std::vector<BlockState> blocks;
  struct OpenJob {
    std::string block;
    PositionRange range;
  };
  // Made when it is published, in this order.
  std::vector<OpenJob> jobs;
  // What the tenant stores more by it, as far as that is known.
  TenantUsage usage;
  bool with_blocks = false;  // For the reply.
  // The request's field that named it, for errors.
  std::string_view id_field = "new_session_id";
};

// A piece of it: rows as they are to be stored.
struct StagedRows {
  std::vector<MessagePtr> messages;
  std::vector<ContentPtr> contents;
  std::vector<BlockEntry> entries;
  std::size_t bytes = 0;  // Of the bodies.

  bool empty() const { return messages.empty() && contents.empty() && entries.empty(); }
};

namespace commands {

// A copy is bounded by the call that makes it, and what it has staged had better go on or go: so
// only the first step may be refused for what waits.
struct BeginStaged {
  static constexpr CommandTraits kTraits{.is_staged = true};

  std::shared_ptr<const StagedSession> staged;
};

struct AddStaged {
  static constexpr CommandTraits kTraits{.is_forced = true, .is_staged = true};

  std::shared_ptr<const StagedSession> staged;
  StagedRows rows;
};

struct PublishStaged {
  static constexpr CommandTraits kTraits{
      .is_forced = true, .is_staged = true, .renews = CommandTraits::Renews::kExpiryAndAges};

  std::shared_ptr<const StagedSession> staged;
};

struct DropStaged {
  static constexpr CommandTraits kTraits{.is_forced = true, .is_staged = true};

  std::shared_ptr<const StagedSession> staged;
};

}  // namespace commands
}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_COMMANDS_STAGED_H_
