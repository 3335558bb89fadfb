#include "core/storage/postgres/row_codec.h"

#include <bit>
#include <charconv>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "core/storage/tool_ids.h"

namespace memoryd {
namespace {

// The text form of a bigint[], such as {1,2}.
bool ParsePositions(std::string_view text, std::vector<std::int64_t>& positions) {
  if (text.size() < 2 || text.front() != '{' || text.back() != '}') return false;
  const char* begin = text.data() + 1;
  const char* const end = text.data() + text.size() - 1;
  while (begin < end) {
    const auto [after, error] = std::from_chars(begin, end, positions.emplace_back());
    if (error != std::errc()) return false;
    begin = after + 1;  // Past the comma.
  }
  return true;
}

}  // namespace

absl::StatusOr<SessionRow> DecodeSession(const QueryResult& result, int row, int column) {
  SessionRow session;
  session.generation = std::bit_cast<std::uint64_t>(result.Int(row, column));
  session.revision = result.Int(row, column + 1);
  session.next_position = result.Int(row, column + 2);
  session.floor = result.Int(row, column + 3);
  session.watermark = result.Int(row, column + 4);
  if (!ParsePositions(result.Text(row, column + 5), session.pinned)) {
    return absl::DataLossError("a stored session can't be read back");
  }
  session.active_count = result.Int(row, column + 6);
  session.archived_count = result.Int(row, column + 7);
  session.active_tokens = result.Int(row, column + 8);
  session.create_us = result.Int(row, column + 9);
  session.update_us = result.Int(row, column + 10);
  session.deleted = result.Text(row, column + 11) == "t";
  session.commit_tag = std::bit_cast<std::uint64_t>(result.Int(row, column + 12));
  session.config = result.Bytes(row, column + 13);
  return session;
}

absl::StatusOr<MessagePtr> DecodeMessage(const QueryResult& result, int row, int column) {
  auto message = std::make_shared<Message>();
  message->position = result.Int(row, column);
  message->message_id = std::string(result.Text(row, column + 1));
  message->role = static_cast<Role>(result.Int(row, column + 2));
  message->token_count = result.Int(row, column + 3);
  message->ingest_us = result.Int(row, column + 4);
  if (!DecodeToolIds(result.Bytes(row, column + 5), *message)) {
    return absl::DataLossError("a stored message can't be read back");
  }
  message->body = result.Bytes(row, column + 6);
  return message;
}

}  // namespace memoryd
