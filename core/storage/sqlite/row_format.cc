#include "core/storage/sqlite/row_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <system_error>

namespace memoryd::sqlite {
namespace {

constexpr char kCall = 'c';
constexpr char kResult = 'r';
constexpr std::size_t kSizeBytes = 4;

void AppendIds(char kind, const std::vector<std::string>& ids, std::string& out) {
  for (const std::string& id : ids) {
    out.push_back(kind);
    for (std::size_t i = 0; i < kSizeBytes; ++i) {
      out.push_back(static_cast<char>((id.size() >> (8 * i)) & 0xFF));
    }
    out.append(id);
  }
}

}  // namespace

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

std::string EncodeToolIds(const Message& message) {
  std::string out;
  AppendIds(kCall, message.call_ids, out);
  AppendIds(kResult, message.result_ids, out);
  return out;
}

bool DecodeToolIds(std::string_view bytes, Message& message) {
  while (!bytes.empty()) {
    if (bytes.size() < 1 + kSizeBytes) return false;
    const char kind = bytes.front();
    std::size_t size = 0;
    for (std::size_t i = 0; i < kSizeBytes; ++i) {
      size |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[1 + i])) << (8 * i);
    }
    bytes.remove_prefix(1 + kSizeBytes);
    if (size > bytes.size() || (kind != kCall && kind != kResult)) return false;
    (kind == kCall ? message.call_ids : message.result_ids).emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return true;
}

}  // namespace memoryd::sqlite
