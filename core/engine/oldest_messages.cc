#include "core/engine/oldest_messages.h"

#include <algorithm>

namespace memoryd {
namespace {

std::int64_t Bytes(const Message& message) {
  return static_cast<std::int64_t>(message.body.size());
}

}  // namespace

std::int64_t ActiveBytes(std::span<const MessagePtr> pinned, const ActiveView& view) {
  std::int64_t bytes = 0;
  for (const MessagePtr& message : pinned) bytes += Bytes(*message);
  for (std::size_t i = 0; i < view.size(); ++i) bytes += Bytes(view.at(i));
  return bytes;
}

std::int64_t FirstUnpinned(const SessionRow& row) {
  return row.pinned.empty() ? row.floor : std::max(row.floor, row.pinned.back() + 1);
}

LeavingMessages OldestToLeave(const Retention& retention, const SessionRow& row,
                              std::span<const MessagePtr> pinned, const ActiveView& view,
                              std::int64_t now_us, std::int64_t keep_from) {
  LeavingMessages leaving;
  const auto active = static_cast<std::int64_t>(view.size());
  std::int64_t surplus = 0;
  if (retention.keep_messages > 0) {
    const std::int64_t stored = row.active_count + row.archived_count;
    surplus =
        std::clamp<std::int64_t>(stored - retention.keep_messages, 0, row.archived_count + active);
  }
  std::int64_t surplus_bytes =
      retention.keep_bytes == 0
          ? 0
          : std::max<std::int64_t>(0, row.message_bytes - retention.keep_bytes);
  if (row.archived_count > 0) {
    if (surplus_bytes > 0) {
      const std::int64_t archived =
          std::max<std::int64_t>(0, row.message_bytes - ActiveBytes(pinned, view));
      if (surplus_bytes >= archived) {
        surplus = std::max(surplus, row.archived_count);
        surplus_bytes -= archived;
      } else {
        leaving.held = true;
      }
    }
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
  std::size_t too_large = 0;
  while (surplus_bytes > 0 && too_large + 1 < view.size()) {
    surplus_bytes -= Bytes(view.at(too_large++));
  }
  going = std::max(going, too_large);
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
