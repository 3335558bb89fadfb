#include "core/engine/page.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace memoryd {
namespace {

// What is stored of the messages that `filter` asks for. The pinned positions are the first ones of
// the generation and follow each other, so it is at most two ranges.
std::vector<PositionRange> Ranges(const SessionRow& row, StatusFilter filter) {
  const PositionRange pinned = row.pinned.empty()
                                   ? PositionRange{}
                                   : PositionRange{row.pinned.front(), row.pinned.back() + 1};
  const std::int64_t rest = std::max(row.floor, pinned.end);
  switch (filter) {
    case StatusFilter::kAll:
      return {pinned, {rest, row.next_position}};
    case StatusFilter::kActive:
      return {pinned, {row.watermark, row.next_position}};
    case StatusFilter::kArchived:
      return {{rest, row.watermark}};
  }
  return {};
}

// Fills a page range by range.
class PageReader {
 public:
  PageReader(Store& store, const PageRequest& request, Page& page)
      : store_(store), request_(request), page_(page) {}

  absl::Status Add(PositionRange range) {
    range.begin = std::max(range.begin, request_.from_position);
    if (range.begin >= range.end || page_.next_position != 0) return absl::OkStatus();
    const auto left = request_.max_messages - static_cast<std::int64_t>(page_.messages.size());
    if (left <= 0 || (bytes_ >= request_.max_bytes && !page_.messages.empty())) {
      page_.next_position = range.begin;
      return absl::OkStatus();
    }
    // One more than fits, to learn whether there is a next page.
    MEMORYD_ASSIGN_OR_RETURN(std::vector<MessagePtr> rows,
                             store_.ReadRange(request_.key, page_.generation, range, left + 1,
                                              request_.max_bytes - bytes_));
    std::int64_t expected = range.begin;
    for (MessagePtr& message : rows) {
      const auto size = static_cast<std::int64_t>(message->body.size());
      page_.has_gap |= message->position != expected;
      expected = message->position + 1;
      if (static_cast<std::int64_t>(page_.messages.size()) >= request_.max_messages ||
          (bytes_ + size > request_.max_bytes && !page_.messages.empty())) {
        page_.next_position = message->position;
        return absl::OkStatus();
      }
      bytes_ += size;
      page_.messages.push_back(std::move(message));
    }
    if (expected >= range.end) return absl::OkStatus();
    if (rows.empty()) {
      page_.has_gap = true;
    } else {
      // The store stopped at the byte limit, or the end of the range is gone.
      page_.next_position = expected;
    }
    return absl::OkStatus();
  }

 private:
  Store& store_;
  const PageRequest& request_;
  Page& page_;
  std::int64_t bytes_ = 0;
};

}  // namespace

bool Page::IsActive(const Message& message) const {
  return message.position >= watermark ||
         std::find(pinned.begin(), pinned.end(), message.position) != pinned.end();
}

absl::StatusOr<Page> ReadPage(Store& store, const SessionInfo& info, const PageRequest& request) {
  Page page;
  if (info.exists()) page.generation = info.row.generation;
  if (request.generation.has_value() && *request.generation != page.generation) {
    return Error(absl::StatusCode::kAborted, "SESSION_REPLACED",
                 "page_token: Set or Reset has replaced the session's messages; begin with the "
                 "first page");
  }
  if (!info.exists()) return page;
  page.watermark = info.row.watermark;
  page.pinned = info.row.pinned;
  PageReader reader(store, request, page);
  for (const PositionRange& range : Ranges(info.row, request.filter)) {
    MEMORYD_RETURN_IF_ERROR(reader.Add(range));
  }
  return page;
}

}  // namespace memoryd
