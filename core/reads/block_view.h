// What can be seen of a session's blocks.
#ifndef MEMORYD_CORE_READS_BLOCK_VIEW_H_
#define MEMORYD_CORE_READS_BLOCK_VIEW_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/blocks/block_knowledge.h"
#include "core/blocks/vector_entry.h"
#include "core/model/job.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/storage/store.h"

namespace memoryd {

// A block at one revision of its session.
struct BlockView {
  BlockSettings settings;
  std::int64_t revision = 0;
  std::shared_ptr<const BlockState> state;  // Null: never fed.
  BlockKnowledge knowledge;
};

struct EntryPageRequest {
  SessionKey key;
  std::string block;
  // Of the page before; absent for the first page.
  std::optional<std::uint64_t> generation;
  std::int64_t from_position = 1;
  std::int64_t max_entries = 100;
  std::int64_t max_bytes = std::int64_t{1} << 20;
  std::int64_t now_us = 0;
  std::int64_t ttl_us = 0;  // The block's; 0: none.
};

struct Entry {
  std::int64_t position = 0;
  std::int64_t ingest_us = 0;
  VectorEntry entry;
};

struct EntryPage {
  std::vector<Entry> entries;
  std::uint64_t generation = 0;
  std::int64_t next_position = 0;  // Where the next page begins; 0 on the last.
  // Entries were missing: those of a block that was cleared meanwhile may be half purged.
  bool has_gap = false;
};

// Reads the page of the block whose state is `state`, without what that hides and without entries
// whose own time, or their block's, is over. Blocks. ABORTED `SESSION_REPLACED` when the
// request's generation is not the block's.
absl::StatusOr<EntryPage> ReadEntries(Store& store, const BlockState& state,
                                      const EntryPageRequest& request);

}  // namespace memoryd

#endif  // MEMORYD_CORE_READS_BLOCK_VIEW_H_
