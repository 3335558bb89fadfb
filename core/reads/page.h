// Pages of a session's messages and contents.
#ifndef MEMORYD_CORE_READS_PAGE_H_
#define MEMORYD_CORE_READS_PAGE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/model/body_reader.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/reads/message_filter.h"
#include "core/sessions/session_info.h"
#include "core/storage/store.h"

namespace memoryd {

struct PageRequest {
  SessionKey key;
  StatusFilter status = StatusFilter::kAll;
  // What messages and contents must pass besides; null: nothing.
  std::shared_ptr<const MessageFilter> filter;
  // Whether messages, and then contents, descend; otherwise they ascend.
  bool newest_first = false;
  // Of the page before; absent for the first page.
  std::optional<std::uint64_t> generation;
  // The message with which the page begins, in its order; 0: the first of all.
  std::int64_t from_position = 0;
  // Rows from here on are not looked at, in either order; 0: no bound.
  std::int64_t until_position = 0;
  std::int64_t until_content = 0;
  // Whether contents follow the messages.
  bool include_contents = false;
  // Above 0: the messages were on earlier pages, this one begins with this content.
  std::int64_t from_content = 0;
  // Of messages and contents together.
  std::int64_t max_messages = 100;
  std::int64_t max_bytes = std::int64_t{1} << 20;
  // With a filter: what is read for a page, at most, but for the last of several reads.
  std::int64_t max_rows_read = 10'000;
  std::int64_t max_bytes_read = std::int64_t{16} << 20;
  // Whether to count what all pages hold together.
  bool include_total = false;
  // Whether rows are only counted, so that the page holds none of them.
  bool count_only = false;
  // What has a time of its own that is over by then is left out.
  std::int64_t now_us = 0;
};

struct Page {
  std::vector<MessagePtr> messages;
  std::vector<ContentPtr> contents;
  std::int64_t row_count = 0;  // Messages and contents, also those that were only counted.
  MemoryBudget::Hold memory;   // Of the messages and contents.
  SessionRow row;              // Of the session read; generation 0 when there is none.
  // Where the next page begins, with a message or else with a content; both 0 on the last.
  std::int64_t next_position = 0;
  std::int64_t next_content = 0;
  // Newest first: contents from here on are on none of the pages. 0 where there is no such bound.
  std::int64_t until_content = 0;
  // When asked for.
  std::optional<std::int64_t> total_count;
  // Positions were missing between the first and the last row read. Rows of a session that was
  // reset meanwhile may be half purged; a Reset of the active messages leaves a gap for good.
  bool has_gap = false;
};

// Reads the page of the session that `info` describes, without its total_count. Blocks. Takes the
// memory that the page may need before it reads, and keeps of it what the page has. ABORTED
// `SESSION_REPLACED` when the request's generation is not the session's; RESOURCE_EXHAUSTED
// `MEMORY_SHORT`.
absl::StatusOr<Page> ReadPage(Store& store, const BodyReader& bodies, MemoryBudget& memory,
                              const SessionInfo& info, const PageRequest& request);

// Counts what all pages of a request hold together, in steps: a filter has to be asked for every
// row.
class PageTotal {
 public:
  // `info` describes the session as it is counted.
  PageTotal(SessionInfo info, PageRequest request)
      : info_(std::move(info)), request_(std::move(request)) {
    request_.generation.reset();
    request_.newest_first = false;
    request_.from_position = request_.from_content = 0;
    request_.until_position = request_.until_content = 0;
  }

  // True once `count()` is the total; false when another step is due. Reads some 10,000 rows.
  // Errors as of ReadPage().
  absl::StatusOr<bool> Step(Store& store, const BodyReader& bodies, MemoryBudget& memory);
  std::int64_t count() const { return count_; }
  const std::string& tenant() const { return request_.key.tenant; }

 private:
  const SessionInfo info_;
  PageRequest request_;
  std::int64_t count_ = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_READS_PAGE_H_
