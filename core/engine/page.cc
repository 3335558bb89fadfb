#include "core/engine/page.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace memoryd {
namespace {

// Fills a page range by range.
class PageReader {
 public:
  PageReader(Store& store, const PageRequest& request, Page& page)
      : store_(store), request_(request), page_(page) {}

  // Unless the page was full before, appends what fits of the range to `out`, and sets `next` to
  // where the next page begins if that is within the range.
  absl::Status Add(std::uint64_t generation, PositionRange range, std::vector<MessagePtr>& out,
                   std::int64_t& next) {
    if (range.begin >= range.end || full_) return absl::OkStatus();
    const std::int64_t left = request_.max_messages - count_;
    if (left <= 0 || (bytes_ >= request_.max_bytes && count_ > 0)) {
      Stop(range.begin, next);
      return absl::OkStatus();
    }
    // One more than fits, to learn whether there is a next page.
    MEMORYD_ASSIGN_OR_RETURN(
        std::vector<MessagePtr> rows,
        store_.ReadRange(request_.key, generation, range, left + 1, request_.max_bytes - bytes_));
    std::int64_t expected = range.begin;
    for (MessagePtr& message : rows) {
      const auto size = static_cast<std::int64_t>(message->body.size());
      page_.has_gap |= message->position != expected;
      expected = message->position + 1;
      if (count_ >= request_.max_messages || (bytes_ + size > request_.max_bytes && count_ > 0)) {
        Stop(message->position, next);
        return absl::OkStatus();
      }
      bytes_ += size;
      ++count_;
      out.push_back(std::move(message));
    }
    if (expected >= range.end) return absl::OkStatus();
    if (rows.empty()) {
      page_.has_gap = true;
    } else {
      // The store stopped at the byte limit, or the end of the range is gone.
      Stop(expected, next);
    }
    return absl::OkStatus();
  }

 private:
  void Stop(std::int64_t position, std::int64_t& next) {
    full_ = true;
    next = position;
  }

  Store& store_;
  const PageRequest& request_;
  Page& page_;
  std::int64_t bytes_ = 0;
  std::int64_t count_ = 0;
  bool full_ = false;
};

}  // namespace

// The pinned positions are the first ones of the generation and follow each other, so it is at most
// two ranges.
std::vector<PositionRange> StoredRanges(const SessionRow& row, StatusFilter filter) {
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

PositionRange StoredContents(const SessionRow& row) {
  return {row.next_content - row.content_count, row.next_content};
}

bool IsActive(const SessionRow& row, std::int64_t position) {
  return position >= row.watermark ||
         std::find(row.pinned.begin(), row.pinned.end(), position) != row.pinned.end();
}

absl::StatusOr<Page> ReadPage(Store& store, const SessionInfo& info, const PageRequest& request) {
  Page page;
  if (info.exists()) page.row = info.row;
  if (request.generation.has_value() && *request.generation != page.row.generation) {
    return Error(absl::StatusCode::kAborted, "SESSION_REPLACED",
                 "page_token: Set or Reset has replaced the session's messages; begin with the "
                 "first page");
  }
  if (!info.exists()) return page;
  PageReader reader(store, request, page);
  if (request.from_content == 0) {
    for (PositionRange range : StoredRanges(info.row, request.filter)) {
      range.begin = std::max(range.begin, request.from_position);
      MEMORYD_RETURN_IF_ERROR(
          reader.Add(info.row.generation, range, page.messages, page.next_position));
    }
  }
  if (request.include_contents && info.row.content_count > 0) {
    PositionRange range = StoredContents(info.row);
    range.begin = std::max(range.begin, request.from_content);
    MEMORYD_RETURN_IF_ERROR(
        reader.Add(info.row.content_generation, range, page.contents, page.next_content));
  }
  return page;
}

}  // namespace memoryd
