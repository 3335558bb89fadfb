// Rows of memoryd_sessions and memoryd_messages from their columns.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_ROW_CODEC_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_ROW_CODEC_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/postgres/query_connection.h"

namespace memoryd {

// The columns in the order the decoders expect them, of the tables `s` and `m`.
#define MEMORYD_SESSION_COLUMNS                                                          \
  "s.generation, s.revision, s.next_position, s.floor_position, s.watermark, s.pinned, " \
  "s.active_count, s.archived_count, s.active_tokens, s.create_us, s.update_us, "        \
  "s.deleted, s.commit_tag, s.config"
#define MEMORYD_MESSAGE_COLUMNS \
  "m.position, m.message_id, m.role, m.token_count, m.ingest_us, m.tool_ids, m.body"
inline constexpr int kSessionColumnCount = 14;
inline constexpr int kMessageColumnCount = 7;

// From the columns that begin at `column`. DATA_LOSS for a row that can't be read back.
absl::StatusOr<SessionRow> DecodeSession(const QueryResult& result, int row, int column);
absl::StatusOr<MessagePtr> DecodeMessage(const QueryResult& result, int row, int column);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_ROW_CODEC_H_
