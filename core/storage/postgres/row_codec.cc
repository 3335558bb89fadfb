#include "core/storage/postgres/row_codec.h"

#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/before_schema_12.h"
#include "core/storage/checksum.h"
#include "core/storage/postgres/query_connection.h"
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

std::string BitsParameter(std::uint64_t number) {
  return std::to_string(std::bit_cast<std::int64_t>(number));
}

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
  session.content_generation = std::bit_cast<std::uint64_t>(result.Int(row, column + 9));
  session.next_content = result.Int(row, column + 10);
  session.content_count = result.Int(row, column + 11);
  session.block_generation = std::bit_cast<std::uint64_t>(result.Int(row, column + 12));
  session.create_us = result.Int(row, column + 13);
  session.update_us = result.Int(row, column + 14);
  session.deleted = result.Text(row, column + 15) == "t";
  session.commit_tag = std::bit_cast<std::uint64_t>(result.Int(row, column + 16));
  session.config = result.Bytes(row, column + 17);
  session.message_bytes = result.Int(row, column + 18);
  session.content_bytes = result.Int(row, column + 19);
  session.edit_revision = result.Int(row, column + 20);
  session.subject = std::string(result.Text(row, column + 21));
  session.expire_us = result.Int(row, column + 22);
  ReadDropUs(result.Int(row, column + 23), result.Text(row, column + 25) == "t", session);
  session.opening = result.Int(row, column + 24);
  return session;
}

absl::StatusOr<MessagePtr> DecodeMessage(const QueryResult& result, int row, int column) {
  MessageDraft draft;
  draft.position = result.Int(row, column);
  draft.SetMessageId(std::string(result.Text(row, column + 1)));
  draft.role = static_cast<Role>(result.Int(row, column + 2));
  draft.token_count = result.Int(row, column + 3);
  draft.ingest_us = result.Int(row, column + 4);
  const std::string tool_ids = result.Bytes(row, column + 5);
  if (!DecodeToolIds(tool_ids, draft)) {
    return absl::DataLossError("a stored message can't be read back");
  }
  draft.body = result.Bytes(row, column + 6);
  MessagePtr message(draft);
  MEMORYD_RETURN_IF_ERROR(CheckChecksum(*message, tool_ids, result.Int(row, column + 7)));
  return message;
}

BlockState DecodeBlock(const QueryResult& result, int row, int column) {
  BlockState block;
  block.name = std::string(result.Text(row, column));
  block.done = result.Int(row, column + 1);
  block.next = result.Int(row, column + 2);
  block.entry_generation = std::bit_cast<std::uint64_t>(result.Int(row, column + 3));
  block.next_entry = result.Int(row, column + 4);
  block.update_us = result.Int(row, column + 5);
  block.state = result.Bytes(row, column + 6);
  return block;
}

JobKey DecodeJobKey(const QueryResult& result, int row) {
  JobKey key;
  key.session = {std::string(result.Text(row, 0)), std::string(result.Text(row, 1))};
  key.generation = std::bit_cast<std::uint64_t>(result.Int(row, 2));
  key.block = std::string(result.Text(row, 3));
  key.number = result.Int(row, 4);
  return key;
}

absl::StatusOr<Job> DecodeJob(const QueryResult& result, int row) {
  Job job;
  job.key = DecodeJobKey(result, row);
  job.message_generation = std::bit_cast<std::uint64_t>(result.Int(row, 5));
  job.begin = result.Int(row, 6);
  job.end = result.Int(row, 7);
  const std::int64_t state = result.Int(row, 8);
  if (state < 0 || state > static_cast<std::int64_t>(JobState::kCancelled)) {
    return absl::DataLossError("a stored job can't be read back");
  }
  job.state = static_cast<JobState>(state);
  job.attempts = result.Int(row, 9);
  job.create_us = result.Int(row, 10);
  job.update_us = result.Int(row, 11);
  job.due_us = result.Int(row, 12);
  job.lease = std::bit_cast<std::uint64_t>(result.Int(row, 13));
  job.lease_until_us = result.Int(row, 14);
  job.last_error = result.Bytes(row, 15);
  job.usage = {result.Int(row, 16), result.Int(row, 17), result.Int(row, 18)};
  return job;
}

absl::StatusOr<std::vector<Job>> DecodeJobs(const QueryResult& result) {
  std::vector<Job> jobs;
  jobs.reserve(static_cast<std::size_t>(result.size()));
  for (int row = 0; row < result.size(); ++row) {
    MEMORYD_ASSIGN_OR_RETURN(jobs.emplace_back(), DecodeJob(result, row));
  }
  return jobs;
}

absl::StatusOr<std::vector<MessagePtr>> DecodeMessages(const QueryResult& result) {
  std::vector<MessagePtr> messages;
  messages.reserve(static_cast<std::size_t>(result.size()));
  for (int row = 0; row < result.size(); ++row) {
    MEMORYD_ASSIGN_OR_RETURN(MessagePtr message, DecodeMessage(result, row, 0));
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace memoryd
