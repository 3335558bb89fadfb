#include "core/engine/oldest_messages.h"

#include <algorithm>

namespace memoryd {

std::int64_t FirstUnpinned(const SessionRow& row) {
  return row.pinned.empty() ? row.floor : std::max(row.floor, row.pinned.back() + 1);
}

LeavingMessages OldestToLeave(const Retention& retention, const SessionRow& row,
                              const ActiveView& view, std::int64_t now_us, std::int64_t keep_from) {
  LeavingMessages leaving;
  const auto active = static_cast<std::int64_t>(view.size());
  std::int64_t surplus = 0;
  if (retention.keep_messages > 0) {
    const std::int64_t stored = row.active_count + row.archived_count;
    surplus =
        std::clamp<std::int64_t>(stored - retention.keep_messages, 0, row.archived_count + active);
  }
  if (row.archived_count > 0) {
    const std::int64_t first = FirstUnpinned(row);
    // Where a message was taken out by itself, positions don't tell how many there are.
    const bool dense = row.watermark - first == row.archived_count;
    std::int64_t going = std::min(surplus, row.archived_count);
    std::int64_t floor = going == row.archived_count ? row.watermark : first + going;
    if (going > 0 && going < row.archived_count && !dense) {
      going = 0;
      leaving.held = true;
    } else if (going > 0 && floor > keep_from) {
      going = dense ? std::clamp<std::int64_t>(keep_from - first, 0, going) : 0;
      floor = first + going;
      leaving.held = true;
    }
    if (going > 0) leaving.floor = floor;
    leaving.archived = going;
    if (going < row.archived_count) return leaving;
  }
  auto going = static_cast<std::size_t>(surplus - leaving.archived);
  if (retention.message_ttl_us > 0) {
    while (going < view.size() && view.at(going).ingest_us + retention.message_ttl_us <= now_us) {
      ++going;
    }
  }
  while (going > 0 && view.at(going - 1).position >= keep_from) {
    --going;
    leaving.held = true;
  }
  going = CutBeforeCalls(view, going);
  if (going > 0) leaving.floor = view.at(going - 1).position + 1;
  leaving.active = going;
  return leaving;
}

}  // namespace memoryd
