#include "core/storage/sqlite/row_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace memoryd::sqlite {

std::string EncodePositions(const std::vector<std::int64_t>& positions) {
  return fmt::format("{}", fmt::join(positions, ","));
}

bool DecodePositions(std::string_view text, std::vector<std::int64_t>& positions) {
  positions.clear();
  const char* next = text.data();
  const char* const end = next + text.size();
  while (next != end) {
    std::int64_t position = 0;
    const auto [rest, error] = std::from_chars(next, end, position);
    if (error != std::errc()) return false;
    positions.push_back(position);
    next = rest;
    if (next == end) break;
    if (*next++ != ',' || next == end) return false;
  }
  return true;
}

}  // namespace memoryd::sqlite
