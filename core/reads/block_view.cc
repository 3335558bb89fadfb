#include "core/reads/block_view.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/vector_entry.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/storage/store.h"

namespace memoryd {

absl::StatusOr<EntryPage> ReadEntries(Store& store, const BlockState& state,
                                      const EntryPageRequest& request) {
  EntryPage page;
  page.generation = state.entry_generation;
  if (request.generation.has_value() && *request.generation != page.generation) {
    return Error(absl::StatusCode::kAborted, "SESSION_REPLACED",
                 "page_token: the block has been cleared; begin with the first page");
  }
  const PositionRange range{request.from_position, state.next_entry};
  if (page.generation == 0 || range.begin >= range.end) return page;
  MEMORYD_ASSIGN_OR_RETURN(
      const std::vector<MessagePtr> rows,
      store.ReadRange(request.key, page.generation, range, request.max_entries, request.max_bytes));
  MEMORYD_ASSIGN_OR_RETURN(const EmbeddingState known, EmbeddingState::FromJson(state.state));
  std::int64_t expected = range.begin;
  for (const MessagePtr& row : rows) {
    page.has_gap |= row->position != expected;
    expected = row->position + 1;
    MEMORYD_ASSIGN_OR_RETURN(VectorEntry entry, DecodeVectorEntry(row->body));
    const bool old = request.ttl_us > 0 && row->ingest_us + request.ttl_us <= request.now_us;
    if (old || row->IsExpired(request.now_us) || known.log.Hides(row->position, entry.sources))
      continue;
    page.entries.push_back({row->position, row->ingest_us, std::move(entry)});
  }
  if (rows.empty()) {
    page.has_gap = true;
  } else if (expected < range.end) {
    page.next_position = expected;
  }
  return page;
}

}  // namespace memoryd
