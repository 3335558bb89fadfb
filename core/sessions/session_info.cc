#include "core/sessions/session_info.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/store.h"

namespace memoryd {

bool IsActive(const SessionRow& row, std::int64_t position) {
  return position >= row.watermark ||
         std::find(row.pinned.begin(), row.pinned.end(), position) != row.pinned.end();
}

bool IsStored(const SessionRow& row, std::int64_t position) {
  return position < row.next_position &&
         (position >= row.floor || position == row.opening || IsActive(row, position));
}

// The pinned positions are the first ones of the generation and no other row lies between them. The
// opening message may stand alone, where retention has taken those around it.
std::vector<PositionRange> StoredRanges(const SessionRow& row, StatusFilter status) {
  const PositionRange pinned = row.pinned.empty()
                                   ? PositionRange{}
                                   : PositionRange{row.pinned.front(), row.pinned.back() + 1};
  const std::int64_t rest = std::max(row.floor, pinned.end);
  const PositionRange opening = row.opening > 0 && row.opening < rest
                                    ? PositionRange{row.opening, row.opening + 1}
                                    : PositionRange{};
  switch (status) {
    case StatusFilter::kAll:
      return {pinned, opening, {rest, row.next_position}};
    case StatusFilter::kActive:
      return {pinned, {row.watermark, row.next_position}};
    case StatusFilter::kArchived:
      return {opening, {rest, row.watermark}};
  }
  return {};
}

std::vector<PositionRange> Without(PositionRange range, std::int64_t position) {
  if (position < range.begin || position >= range.end) return {range};
  std::vector<PositionRange> parts;
  if (range.begin < position) parts.push_back({range.begin, position});
  if (position + 1 < range.end) parts.push_back({position + 1, range.end});
  return parts;
}

PositionRange StoredContents(const SessionRow& row) {
  // A deleted one leaves a hole: how many there are does not tell where they begin.
  return {1, row.next_content};
}

absl::StatusOr<std::vector<std::int64_t>> PositionsOf(Store& store, const SessionKey& key,
                                                      std::uint64_t generation,
                                                      const std::vector<std::string>& ids) {
  MEMORYD_ASSIGN_OR_RETURN(std::vector<std::int64_t> positions,
                           store.FindPositions(key, generation, ids));
  for (const std::string& id : ids) {
    if (const auto position = PositionInId(id, generation)) positions.push_back(*position);
  }
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  return positions;
}

}  // namespace memoryd
