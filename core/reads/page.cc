#include "core/reads/page.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/status_macros.h"
#include "core/model/body_reader.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/sessions/session_info.h"
#include "core/storage/store.h"

namespace memoryd {
namespace {

// Of one read while a filter is asked.
constexpr std::int64_t kFilteredRead = 1000;
// A page that may have less is read without asking the budget first.
constexpr std::int64_t kUnaskedBytes = std::int64_t{64} << 10;
// The first row of a read may be as large as a request.
constexpr std::int64_t kMostRowBytes = std::int64_t{60} << 20;
// While rows are read, the store's client library holds their bytes as well. Later the reply does.
constexpr std::int64_t kCopies = 2;

// What messages or contents may have of the `most` bytes of a page. Sessions from before schema 4
// are stored with 0, whatever they hold.
std::int64_t MostBytes(std::int64_t stored_bytes, std::int64_t count, std::int64_t most) {
  return stored_bytes == 0 && count > 0 ? most : std::min(stored_bytes, most);
}

// The stored rows that a page may have: the ranges in its order, each ascending.
struct PageRanges {
  std::vector<PositionRange> messages;
  PositionRange contents;
};

// The part of `range` that a page of the request may have.
PositionRange Bounded(const PageRequest& request, PositionRange range, std::int64_t from,
                      std::int64_t until) {
  if (!request.newest_first) {
    range.begin = std::max(range.begin, from);
  } else if (from > 0 && from < range.end) {
    range.end = from + 1;
  }
  if (until > 0) range.end = std::min(range.end, until);
  return range;
}

// Adds up what a page reads of some ranges, by sizes alone.
class SizeReader {
 public:
  SizeReader(Store& store, const PageRequest& request)
      : store_(store), request_(request), rows_left_(request.max_messages + 1) {}

  // False when the store fails, or rows are missing, so that the page may reach further.
  bool Add(std::uint64_t generation, PositionRange range) {
    const std::int64_t rows = std::min(range.end - range.begin, rows_left_);
    if (rows <= 0 || bytes_ > request_.max_bytes) return true;
    (request_.newest_first ? range.begin : range.end) =
        request_.newest_first ? range.end - rows : range.begin + rows;
    auto sizes = store_.ReadSizes(request_.key, generation, range, rows);
    if (!sizes.ok() || std::ssize(*sizes) < rows) return false;
    rows_left_ -= rows;
    // They descend.
    if (!request_.newest_first) std::reverse(sizes->begin(), sizes->end());
    // The row that does not fit may be read all the same, as the first of a range.
    for (const RowSize& size : *sizes) {
      bytes_ += size.bytes;
      if (bytes_ > request_.max_bytes) break;
    }
    return true;
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  Store& store_;
  const PageRequest& request_;
  std::int64_t rows_left_;
  std::int64_t bytes_ = 0;
};

// The bytes that a page reads; nullopt where that is not known beforehand.
std::optional<std::int64_t> BytesOfPage(Store& store, const SessionRow& row,
                                        const PageRequest& request, const PageRanges& ranges) {
  // Else rows are read that the page does not have.
  if (request.filter != nullptr || request.count_only || row.has_timed_items) return std::nullopt;
  SizeReader sizes(store, request);
  for (const PositionRange& range : ranges.messages) {
    if (!sizes.Add(row.generation, range)) return std::nullopt;
  }
  if (!sizes.Add(row.content_generation, ranges.contents)) return std::nullopt;
  return sizes.bytes();
}

// Takes what a page of the session may need while it is read. The sizes of its rows are asked for
// only where the budget has no room for the most that it may have.
absl::StatusOr<MemoryBudget::Hold> TakeForPage(Store& store, MemoryBudget& budget,
                                               const SessionRow& row, const PageRequest& request,
                                               const PageRanges& ranges) {
  std::int64_t most = request.max_bytes + kMostRowBytes;
  const std::int64_t contents =
      request.include_contents ? MostBytes(row.content_bytes, row.content_count, most) : 0;
  most = std::min(
      most, contents + MostBytes(row.message_bytes, row.active_count + row.archived_count, most));
  const std::string& tenant = request.key.tenant;
  if (most <= kUnaskedBytes) return budget.Count(tenant, MemoryUse::kReplies, 0);
  most *= kCopies;
  // A tenant that holds nothing else must be able to read, however small the budget is.
  if (budget.limit() > 0) {
    most = std::min(most, budget.MostOfTenant(MemoryUse::kReplies) / kCopies);
  }
  if (budget.limit() == 0 || budget.held() + most <= budget.limit()) {
    std::optional<MemoryBudget::Hold> hold = budget.TryTake(tenant, MemoryUse::kReplies, most);
    if (hold.has_value()) return *std::move(hold);
  }
  if (const auto bytes = BytesOfPage(store, row, request, ranges); bytes.has_value()) {
    most = std::min(most, *bytes * kCopies);
  }
  return budget.Take(tenant, MemoryUse::kReplies, most);
}

// Fills a page range by range.
class PageReader {
 public:
  PageReader(Store& store, const BodyReader& bodies, const PageRequest& request, Page& page)
      : store_(store), bodies_(bodies), request_(request), page_(page) {}

  absl::Status AddMessages(PositionRange range) {
    return Add(page_.row.generation, range, page_.messages, page_.next_position,
               [this](const Message& message) {
                 return request_.filter->Passes(message, page_.row, bodies_);
               });
  }
  absl::Status AddContents(PositionRange range) {
    return Add(page_.row.content_generation, range, page_.contents, page_.next_content,
               [this](const Content& content) {
                 return request_.filter->PassesContent(content, bodies_);
               });
  }

  std::int64_t bytes() const { return bytes_; }
  std::int64_t count() const { return count_; }

 private:
  // Unless the page was full before, appends what fits of the range to `out`, in the page's order,
  // and sets `next` to where the next page begins if that is within the range.
  template <typename Filter>
  absl::Status Add(std::uint64_t generation, PositionRange range, std::vector<MessagePtr>& out,
                   std::int64_t& next, const Filter& passes) {
    while (range.begin < range.end && !full_) {
      bool hidden = false;
      if (IsFull()) return StopWithin(generation, range, next);
      MEMORYD_ASSIGN_OR_RETURN(const std::vector<MessagePtr> rows, Read(generation, range));
      if (rows.empty()) {
        page_.has_gap = true;
        break;
      }
      for (const MessagePtr& row : rows) {
        page_.has_gap |= row->position != First(range);
        if (IsFull()) {
          Stop(row->position, next);
          return absl::OkStatus();
        }
        const auto size = static_cast<std::int64_t>(row->body.size());
        MEMORYD_ASSIGN_OR_RETURN(const bool take, IsWanted(*row, passes, hidden));
        if (take && !request_.count_only && bytes_ + size > request_.max_bytes && count_ > 0) {
          Stop(row->position, next);
          return absl::OkStatus();
        }
        TakeOut(row->position, range);
        if (!take) continue;
        ++count_;
        if (request_.count_only) continue;
        bytes_ += size;
        out.push_back(row);
      }
      // The store stopped at the byte limit, or the end of the range is gone.
      if (request_.filter == nullptr && !hidden && range.begin < range.end) {
        MEMORYD_RETURN_IF_ERROR(StopWithin(generation, range, next));
      }
    }
    return absl::OkStatus();
  }

  // Counts the row as read. Whether it may be shown; `hidden` becomes true where its time is over.
  template <typename Filter>
  absl::StatusOr<bool> IsWanted(const Message& row, const Filter& passes, bool& hidden) {
    ++rows_read_;
    bytes_read_ += static_cast<std::int64_t>(row.body.size());
    if (row.IsExpired(request_.now_us)) {
      hidden = true;
      return false;
    }
    if (request_.filter == nullptr) return true;
    return passes(row);
  }

  // The first position of the range in the page's order, and the range without it and all before.
  std::int64_t First(const PositionRange& range) const {
    return request_.newest_first ? range.end - 1 : range.begin;
  }
  void TakeOut(std::int64_t position, PositionRange& range) const {
    (request_.newest_first ? range.end : range.begin) =
        request_.newest_first ? position : position + 1;
  }

  absl::StatusOr<std::vector<MessagePtr>> Read(std::uint64_t generation, PositionRange range) {
    const bool filtered = request_.filter != nullptr;
    // One more than fits, to learn whether there is a next page.
    const std::int64_t rows = filtered ? kFilteredRead : request_.max_messages - count_ + 1;
    const std::int64_t bytes =
        filtered ? std::max<std::int64_t>(request_.max_bytes, 1) : request_.max_bytes - bytes_;
    return request_.newest_first ? store_.ReadNewest(request_.key, generation, range, rows, bytes)
                                 : store_.ReadRange(request_.key, generation, range, rows, bytes);
  }

  // Whether nothing more is to be read for this page.
  bool IsFull() const {
    return count_ >= request_.max_messages || (bytes_ >= request_.max_bytes && count_ > 0) ||
           (request_.filter != nullptr &&
            (rows_read_ >= request_.max_rows_read || bytes_read_ >= request_.max_bytes_read));
  }

  void Stop(std::int64_t position, std::int64_t& next) {
    full_ = true;
    next = position;
  }

  // Ends the page before what is left of the range. Deleted messages leave holes at the range's old
  // end: without a look, the last page from the new end would announce another one that is empty.
  // Pages of a filter may be.
  absl::Status StopWithin(std::uint64_t generation, PositionRange& range, std::int64_t& next) {
    if (request_.newest_first && request_.filter == nullptr) {
      MEMORYD_ASSIGN_OR_RETURN(const std::vector<RowSize> left,
                               store_.ReadSizes(request_.key, generation, range, 1));
      if (left.empty()) {
        page_.has_gap = true;
        range.end = range.begin;
        return absl::OkStatus();
      }
      range.end = left.front().position + 1;
    }
    Stop(First(range), next);
    return absl::OkStatus();
  }

  Store& store_;
  const BodyReader& bodies_;
  const PageRequest& request_;
  Page& page_;
  std::int64_t bytes_ = 0;
  std::int64_t count_ = 0;
  std::int64_t rows_read_ = 0;
  std::int64_t bytes_read_ = 0;
  bool full_ = false;
};

// The parts of `ranges`, which ascend, that hold `positions`.
std::vector<PositionRange> Narrowed(const std::vector<PositionRange>& ranges,
                                    const std::vector<std::int64_t>& positions) {
  std::vector<PositionRange> narrowed;
  for (const PositionRange& range : ranges) {
    auto position = std::lower_bound(positions.begin(), positions.end(), range.begin);
    for (; position != positions.end() && *position < range.end; ++position) {
      if (!narrowed.empty() && narrowed.back().end == *position) {
        ++narrowed.back().end;
      } else {
        narrowed.push_back({*position, *position + 1});
      }
    }
  }
  return narrowed;
}

}  // namespace

absl::StatusOr<Page> ReadPage(Store& store, const BodyReader& bodies, MemoryBudget& memory,
                              const SessionInfo& info, const PageRequest& request) {
  Page page;
  if (info.exists()) page.row = info.row;
  if (request.generation.has_value() && *request.generation != page.row.generation) {
    return Error(absl::StatusCode::kAborted, "SESSION_REPLACED",
                 "page_token: Set or Reset has replaced the session's messages; begin with the "
                 "first page");
  }
  if (!info.exists()) return page;
  PageRanges ranges;
  if (request.from_content == 0) {
    ranges.messages = StoredRanges(info.row, request.status);
    if (request.filter != nullptr && !request.filter->message_ids.empty()) {
      MEMORYD_ASSIGN_OR_RETURN(
          const std::vector<std::int64_t> positions,
          PositionsOf(store, request.key, info.row.generation, request.filter->message_ids));
      ranges.messages = Narrowed(ranges.messages, positions);
    }
    for (PositionRange& range : ranges.messages) {
      range = Bounded(request, range, request.from_position, request.until_position);
    }
    if (request.newest_first) std::reverse(ranges.messages.begin(), ranges.messages.end());
  }
  if (request.include_contents && info.row.content_count > 0) {
    ranges.contents =
        Bounded(request, StoredContents(info.row), request.from_content, request.until_content);
  }
  // Their pages begin after those of the messages, when there may be newer ones.
  if (request.include_contents && request.newest_first) {
    page.until_content = request.until_content > 0 ? request.until_content : info.row.next_content;
  }
  MEMORYD_ASSIGN_OR_RETURN(page.memory, TakeForPage(store, memory, info.row, request, ranges));
  PageReader reader(store, bodies, request, page);
  for (const PositionRange& range : ranges.messages) {
    MEMORYD_RETURN_IF_ERROR(reader.AddMessages(range));
  }
  MEMORYD_RETURN_IF_ERROR(reader.AddContents(ranges.contents));
  page.memory.Resize(reader.bytes());
  page.row_count = reader.count();
  return page;
}

absl::StatusOr<bool> PageTotal::Step(Store& store, const BodyReader& bodies, MemoryBudget& memory) {
  const SessionRow& row = info_.row;
  if (!info_.exists()) return true;
  if (request_.filter == nullptr && !row.has_timed_items) {
    if (request_.status != StatusFilter::kArchived) count_ += row.active_count;
    if (request_.status != StatusFilter::kActive) count_ += row.archived_count;
    if (request_.include_contents) count_ += row.content_count;
    return true;
  }
  // A page that is bounded by what is read for it alone.
  PageRequest step = request_;
  step.max_messages = step.max_rows_read;
  step.count_only = true;
  MEMORYD_ASSIGN_OR_RETURN(const Page page, ReadPage(store, bodies, memory, info_, step));
  count_ += page.row_count;
  request_.from_position = page.next_position;
  request_.from_content = page.next_content;
  return page.next_position == 0 && page.next_content == 0;
}

}  // namespace memoryd
