// Pages of a session's messages and contents.
#ifndef MEMORYD_CORE_ENGINE_PAGE_H_
#define MEMORYD_CORE_ENGINE_PAGE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/storage/store.h"

namespace memoryd {

// A session's row and configuration at one instant; revision 0 when there is none.
struct SessionInfo {
  SessionRow row;
  std::shared_ptr<const SessionConfig> config;
  bool exists() const { return row.revision > 0 && !row.deleted; }
};

enum class StatusFilter { kAll, kActive, kArchived };

// What is stored of the messages that `filter` asks for, ascending.
std::vector<PositionRange> StoredRanges(const SessionRow& row, StatusFilter filter);

PositionRange StoredContents(const SessionRow& row);

// Whether the message at `position`, which is stored, is in short-term memory.
bool IsActive(const SessionRow& row, std::int64_t position);

struct PageRequest {
  SessionKey key;
  StatusFilter filter = StatusFilter::kAll;
  // Of the page before; absent for the first page.
  std::optional<std::uint64_t> generation;
  std::int64_t from_position = 0;
  // Whether contents follow the messages.
  bool include_contents = false;
  // Above 0: the messages were on earlier pages, this one begins with this content.
  std::int64_t from_content = 0;
  // Of messages and contents together.
  std::int64_t max_messages = 100;
  std::int64_t max_bytes = std::int64_t{1} << 20;
};

struct Page {
  std::vector<MessagePtr> messages;
  std::vector<ContentPtr> contents;
  SessionRow row;  // Of the session read; generation 0 when there is none.
  // Where the next page begins, with a message or else with a content; both 0 on the last.
  std::int64_t next_position = 0;
  std::int64_t next_content = 0;
  // Positions were missing between the first and the last row read. Rows of a session that was
  // reset meanwhile may be half purged; a Reset of the active messages leaves a gap for good.
  bool has_gap = false;
};

// Reads the page of the session that `info` describes. Blocks. ABORTED `SESSION_REPLACED` when the
// request's generation is not the session's.
absl::StatusOr<Page> ReadPage(Store& store, const SessionInfo& info, const PageRequest& request);

}  // namespace memoryd

#endif  // MEMORYD_CORE_ENGINE_PAGE_H_
