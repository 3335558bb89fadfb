// Rows of our tables from their columns.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_ROW_CODEC_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_ROW_CODEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/postgres/query_connection.h"

namespace memoryd {

// The columns in the order the decoders expect them, of the tables `s`, `m`, `b` and `j`.
#define MEMORYD_SESSION_COLUMNS_WITH(config)                                             \
  "s.generation, s.revision, s.next_position, s.floor_position, s.watermark, s.pinned, " \
  "s.active_count, s.archived_count, s.active_tokens, s.content_generation, "            \
  "s.next_content, s.content_count, s.block_generation, s.create_us, s.update_us, "      \
  "s.deleted, s.commit_tag, " config                                                     \
  ", s.message_bytes, s.content_bytes, s.edit_revision, "                                \
  "s.subject, coalesce(s.expire_us, 0), coalesce(s.drop_us, 0), s.opening, s.has_timed_items"
#define MEMORYD_SESSION_COLUMNS MEMORYD_SESSION_COLUMNS_WITH("s.config")
#define MEMORYD_MESSAGE_COLUMNS                                                        \
  "m.position, m.message_id, m.role, m.token_count, m.ingest_us, m.tool_ids, m.body, " \
  "m.checksum"
#define MEMORYD_BLOCK_COLUMNS \
  "b.name, b.done, b.next, b.entry_generation, b.next_entry, b.update_us, b.state"
#define MEMORYD_JOB_COLUMNS                                                                  \
  "j.tenant, j.session, j.generation, j.block, j.number, j.message_generation, "             \
  "j.begin_position, j.end_position, j.state, j.attempts, j.create_us, j.update_us, j.due, " \
  "j.lease, j.lease_until, j.last_error, j.calls, j.prompt_tokens, j.completion_tokens"
inline constexpr int kSessionColumnCount = 26;
inline constexpr int kMessageColumnCount = 8;
inline constexpr int kBlockColumnCount = 7;

// The parameter for a number that is stored as the signed one of the same bits.
std::string BitsParameter(std::uint64_t number);

// From the columns that begin at `column`. DATA_LOSS for a row that can't be read back.
absl::StatusOr<SessionRow> DecodeSession(const QueryResult& result, int row, int column);
absl::StatusOr<MessagePtr> DecodeMessage(const QueryResult& result, int row, int column);
BlockState DecodeBlock(const QueryResult& result, int row, int column);
JobKey DecodeJobKey(const QueryResult& result, int row);
absl::StatusOr<Job> DecodeJob(const QueryResult& result, int row);
absl::StatusOr<std::vector<Job>> DecodeJobs(const QueryResult& result);
// Every row; message columns come first.
absl::StatusOr<std::vector<MessagePtr>> DecodeMessages(const QueryResult& result);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_ROW_CODEC_H_
