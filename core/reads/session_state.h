// What a watcher keeps of a session, and what has changed between two looks at it.
#ifndef MEMORYD_CORE_READS_SESSION_STATE_H_
#define MEMORYD_CORE_READS_SESSION_STATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/model/session.h"
#include "core/sessions/session.h"
#include "core/storage/store.h"

namespace memoryd {

// A session at one revision: small, whatever it holds.
struct SessionState {
  struct Block {
    std::string name;
    std::uint64_t knowledge = 0;  // Of what it knows; 0: nothing.
    std::int64_t done = 0;        // As in BlockState.
    std::int64_t next = 1;
  };

  // Without the configuration. Revision 0: there is no such session.
  SessionRow row;
  std::uint64_t config = 0;       // Of the configuration.
  std::int64_t stored_bytes = 0;  // As StoredUsage() has them, with the configuration.
  std::vector<Block> blocks;      // By name.

  bool exists() const { return row.revision > 0 && !row.deleted; }
  // Of a session that is there, what stores call its version.
  SessionVersion version() const {
    return exists() ? SessionVersion{row.generation, row.revision} : SessionVersion();
  }
  // Approximate memory.
  std::size_t ByteSize() const;
};

// Takes as long as what the blocks know is large.
SessionState StateOf(const SessionRow& row,
                     const std::vector<std::shared_ptr<const BlockState>>& blocks);

// As memoryd.v1.SessionChange.
enum class StateChange {
  kMessagesPut,
  kMessagesArchived,
  kMessagesRemoved,
  kMessagesReplaced,
  kItemsEdited,
  kContentsPut,
  kContentsReplaced,
  kBlocks,
  kJobs,
  kConfig,
  kDeleted,
};

struct StateChanges {
  std::vector<StateChange> changes;      // Each once, in the order of the enumeration.
  std::int64_t first_new_position = 0;   // With kMessagesPut.
  std::vector<std::string> blocks = {};  // With kBlocks: their names.
};

// `before` exists. Any number of commits may lie between the two.
StateChanges ChangesBetween(const SessionState& before, const SessionState& after);

}  // namespace memoryd

#endif  // MEMORYD_CORE_READS_SESSION_STATE_H_
