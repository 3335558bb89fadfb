#include "core/storage/sqlite/sqlite_read.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/before_schema_12.h"
#include "core/storage/checksum.h"
#include "core/storage/sqlite/database.h"
#include "core/storage/sqlite/row_format.h"
#include "core/storage/sqlite/value.h"
#include "core/storage/store.h"
#include "core/storage/tool_ids.h"

namespace memoryd::sqlite {
namespace {

#define MEMORYD_SESSION_COLUMNS_WITH(config)                                              \
  "generation, revision, next_position, floor_position, watermark, pinned, active_count," \
  " archived_count, active_tokens, content_generation, next_content, content_count,"      \
  " block_generation, create_us, update_us, deleted, commit_tag, " config                 \
  ", message_bytes, content_bytes, edit_revision, subject, expire_us, drop_us, opening,"  \
  " has_timed_items"
#define MEMORYD_SESSION_COLUMNS MEMORYD_SESSION_COLUMNS_WITH("config")
// Where the first parameter says so.
#define MEMORYD_LISTED_COLUMNS MEMORYD_SESSION_COLUMNS_WITH("CASE WHEN ? THEN config ELSE x'' END")
// The least that a larger one takes is its length, which stands beside the row.
#define MEMORYD_DUE_COLUMNS     \
  MEMORYD_SESSION_COLUMNS_WITH( \
      "CASE WHEN typeof(config) = 'blob' AND length(config) <= ? THEN config ELSE x'' END")

constexpr char kSelectSession[] =
    "SELECT " MEMORYD_SESSION_COLUMNS " FROM memoryd_sessions WHERE tenant = ? AND session = ?";

constexpr char kListSessions[] =
    "SELECT " MEMORYD_LISTED_COLUMNS ", session, " MEMORYD_LENGTH_OF("config") " FROM memoryd_sessions"
    " WHERE tenant = ? AND session >= ? AND session < ? AND NOT deleted ORDER BY session LIMIT ?";

// The condition of the index, by which SQLite sees that it serves.
constexpr char kListSubject[] =
    "SELECT " MEMORYD_LISTED_COLUMNS ", session, " MEMORYD_LENGTH_OF("config") " FROM"
    " memoryd_sessions WHERE tenant = ? AND session >= ? AND session < ? AND subject = ?"
    " AND subject <> '' AND (NOT deleted OR ?) ORDER BY session LIMIT ?";

// Sorts ids alone: rows of configurations may be large, and all but a page are dropped.
constexpr char kListLatest[] =
    "SELECT " MEMORYD_LISTED_COLUMNS ", s.session, " MEMORYD_LENGTH_OF("config") " FROM"
    " (SELECT tenant, session FROM memoryd_sessions"
    "  WHERE tenant = ? AND session >= ? AND session < ? AND subject = ? AND subject <> ''"
    "  AND NOT deleted AND (update_us < ? OR (update_us = ? AND session > ?))"
    "  ORDER BY update_us DESC, session LIMIT ?) k"
    " JOIN memoryd_sessions s ON s.tenant = k.tenant AND s.session = k.session"
    " ORDER BY s.update_us DESC, s.session";

constexpr char kListExpiring[] =
    "SELECT " MEMORYD_DUE_COLUMNS
    ", session, tenant FROM memoryd_sessions WHERE expire_us > 0 AND expire_us <= ? AND NOT deleted"
    " ORDER BY expire_us LIMIT ?";

constexpr char kListDropping[] =
    "SELECT " MEMORYD_DUE_COLUMNS
    ", session, tenant FROM memoryd_sessions WHERE drop_us > 0 AND drop_us <= ? AND NOT deleted"
    " ORDER BY drop_us LIMIT ?";

#undef MEMORYD_DUE_COLUMNS
#undef MEMORYD_LISTED_COLUMNS
#undef MEMORYD_SESSION_COLUMNS
#undef MEMORYD_SESSION_COLUMNS_WITH

constexpr char kCountRequests[] =
    "SELECT count(*) FROM memoryd_requests"
    " WHERE tenant = ? AND session = ? AND fingerprint <> x'' AND create_us >="
    " max((SELECT coalesce(max(before_us), 0) FROM memoryd_forgotten"
    "  WHERE tenant = ? AND session = ?), (SELECT coalesce(max(end_position), 0)"
    "  FROM memoryd_garbage WHERE tenant = ? AND session = ? AND generation = 0))";

static_assert(kForgottenGeneration == 0, "as kCountRequests has it");

// A configuration that is missing counts nothing: who reads the session is told.
constexpr char kSelectUsage[] =
    "SELECT count(*), coalesce(sum(active_count + archived_count + content_count), 0),"
    " coalesce(sum(message_bytes + content_bytes + coalesce(" MEMORYD_LENGTH_OF("config") ", 0)), 0)"
    " FROM memoryd_sessions WHERE tenant = ? AND NOT deleted";

constexpr char kSelectMessages[] =
    "SELECT position, message_id, role, token_count, ingest_us, tool_ids, body, checksum"
    " FROM memoryd_messages"
    " WHERE tenant = ? AND session = ? AND generation = ? AND position >= ? AND position < ?"
    " ORDER BY position LIMIT ?";

constexpr char kSelectNewest[] =
    "SELECT position, message_id, role, token_count, ingest_us, tool_ids, body, checksum"
    " FROM memoryd_messages"
    " WHERE tenant = ? AND session = ? AND generation = ? AND position >= ? AND position < ?"
    " ORDER BY position DESC LIMIT ?";

// A body that is missing counts nothing: who reads the message is told.
constexpr char kSumActive[] =
    "SELECT coalesce(sum(" MEMORYD_LENGTH_OF("body") "), 0), count(*) FROM memoryd_messages"
    " WHERE tenant = ? AND session = ? AND generation = ? AND position >= ? AND position < ?";

constexpr char kSelectPosition[] =
    "SELECT position FROM memoryd_messages"
    " WHERE tenant = ? AND session = ? AND generation = ? AND message_id = ?";

constexpr char kSelectSizes[] =
    "SELECT position, token_count, " MEMORYD_LENGTH_OF("body") " FROM memoryd_messages"
    " WHERE tenant = ? AND session = ? AND generation = ? AND position >= ? AND position < ?"
    " ORDER BY position DESC LIMIT ?";

constexpr char kSelectBlocks[] =
    "SELECT name, done, next, entry_generation, next_entry, update_us, state FROM memoryd_blocks"
    " WHERE tenant = ? AND session = ? AND generation = ? ORDER BY name";

constexpr char kSelectVersion[] =
    "SELECT generation, revision FROM memoryd_sessions"
    " WHERE tenant = ? AND session = ? AND NOT deleted";

constexpr char kSelectRequest[] =
    "SELECT fingerprint, reply, create_us FROM memoryd_requests"
    " WHERE tenant = ? AND session = ? AND request_id = ?";

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

absl::StatusOr<SessionRow> ReadSessionRow(Database& db, const Query& query) {
  SessionRow row;
  row.generation = query.Bits(0);
  row.revision = query.Int(1);
  row.next_position = query.Int(2);
  row.floor = query.Int(3);
  row.watermark = query.Int(4);
  if (!DecodePositions(query.Bytes(5), row.pinned)) return UnreadableRow();
  row.active_count = query.Int(6);
  row.archived_count = query.Int(7);
  row.active_tokens = query.Int(8);
  row.content_generation = query.Bits(9);
  row.next_content = query.Int(10);
  row.content_count = query.Int(11);
  row.block_generation = query.Bits(12);
  row.create_us = query.Int(13);
  row.update_us = query.Int(14);
  row.deleted = query.Int(15) != 0;
  row.commit_tag = query.Bits(16);
  MEMORYD_ASSIGN_OR_RETURN(row.config, ReadValue(db, query, 17));
  row.message_bytes = query.Int(18);
  row.content_bytes = query.Int(19);
  row.edit_revision = query.Int(20);
  row.subject = query.String(21);
  row.expire_us = query.Int(22);
  ReadDropUs(query.Int(23), query.Int(25) != 0, row);
  row.opening = query.Int(24);
  return row;
}

// Of a query that finds one session more than are asked for.
absl::StatusOr<SessionPage> ReadListed(Database& db, Query& query, std::string_view after,
                                       const SessionListLimits& limits) {
  SessionPage page;
  std::int64_t bytes = 0;
  for (;;) {
    MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
    if (!found) return page;
    std::string session = query.String(26);
    if (session == after) continue;
    page.more = std::ssize(page.sessions) >= limits.max_sessions;
    if (page.more) return page;
    // Before it is read. A missing one ends the page, too: the next one begins with its error.
    if (limits.with_configs && !page.sessions.empty()) {
      page.more = query.IsNull(27) || bytes + query.Int(27) > limits.max_bytes;
      if (page.more) return page;
    }
    MEMORYD_ASSIGN_OR_RETURN(SessionRow row, ReadSessionRow(db, query));
    bytes += std::ssize(row.config);
    page.sessions.push_back({std::move(session), std::move(row)});
  }
}

// Where a list by ids begins: it may have that of `after`, which ReadListed() leaves out.
std::string_view FirstId(std::string_view after, const SessionListLimits& limits) {
  return std::max(after, limits.prefix);
}

std::int64_t OneMoreThan(std::int64_t count) { return std::max<std::int64_t>(0, count) + 1; }

absl::StatusOr<MessagePtr> ReadMessage(Database& db, const Query& query) {
  MessageDraft draft;
  draft.position = query.Int(0);
  draft.SetMessageId(query.String(1));
  const std::int64_t role = query.Int(2);
  if (role < 0 || role > static_cast<std::int64_t>(Role::kTool)) return UnreadableRow();
  draft.role = static_cast<Role>(role);
  draft.token_count = query.Int(3);
  draft.ingest_us = query.Int(4);
  MEMORYD_ASSIGN_OR_RETURN(const std::string tool_ids, ReadValue(db, query, 5));
  if (!DecodeToolIds(tool_ids, draft)) return UnreadableRow();
  MEMORYD_ASSIGN_OR_RETURN(draft.body, ReadValue(db, query, 6));
  MessagePtr message(draft);
  MEMORYD_RETURN_IF_ERROR(CheckChecksum(*message, tool_ids, query.Int(7)));
  return message;
}

// Appends to `messages` what `statement` finds of the range, as ReadRange and ReadNewest return it.
absl::Status AppendRows(Database& db, const char* statement, const SessionKey& key,
                        std::uint64_t generation, PositionRange range, std::int64_t max_messages,
                        std::int64_t max_bytes, std::vector<MessagePtr>& messages) {
  Query query = db.Prepare(statement);
  query.BindText(key.tenant)
      .BindText(key.session)
      .BindBits(generation)
      .Bind(range.begin)
      .Bind(range.end)
      .Bind(max_messages);
  std::int64_t bytes = 0;
  for (bool first = true;; first = false) {
    MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
    if (!found) return absl::OkStatus();
    MEMORYD_ASSIGN_OR_RETURN(MessagePtr message, ReadMessage(db, query));
    bytes += static_cast<std::int64_t>(message->body.size());
    if (!first && bytes > max_bytes) return absl::OkStatus();
    messages.push_back(std::move(message));
  }
}

absl::Status AppendRange(Database& db, const SessionKey& key, std::uint64_t generation,
                         PositionRange range, std::int64_t max_messages, std::int64_t max_bytes,
                         std::vector<MessagePtr>& messages) {
  return AppendRows(db, kSelectMessages, key, generation, range, max_messages, max_bytes, messages);
}

// How much the active messages are; 0 where the row tells that it is at most `max_bytes`.
absl::StatusOr<std::int64_t> ReadActiveBytes(Database& db, const SessionKey& key,
                                             const SessionRow& row, std::int64_t max_bytes) {
  if (MostActiveBytes(row) <= max_bytes) return 0;
  std::int64_t bytes = 0;
  const auto add = [&](PositionRange range) -> absl::Status {
    Query query = db.Prepare(kSumActive);
    query.BindText(key.tenant)
        .BindText(key.session)
        .BindBits(row.generation)
        .Bind(range.begin)
        .Bind(range.end);
    MEMORYD_RETURN_IF_ERROR(query.Next().status());
    bytes += query.Int(0) + query.Int(1) * kActiveMessageBytes;
    return absl::OkStatus();
  };
  for (const std::int64_t position : row.pinned) {
    if (position < row.watermark) MEMORYD_RETURN_IF_ERROR(add({position, position + 1}));
  }
  MEMORYD_RETURN_IF_ERROR(add({row.watermark, row.next_position}));
  return bytes;
}

absl::StatusOr<std::vector<BlockState>> ReadBlocks(Database& db, const SessionKey& key,
                                                   std::uint64_t generation) {
  std::vector<BlockState> blocks;
  if (generation == 0) return blocks;
  Query query = db.Prepare(kSelectBlocks);
  query.BindText(key.tenant).BindText(key.session).BindBits(generation);
  for (;;) {
    MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
    if (!found) return blocks;
    BlockState& block = blocks.emplace_back();
    block.name = query.String(0);
    block.done = query.Int(1);
    block.next = query.Int(2);
    block.entry_generation = query.Bits(3);
    block.next_entry = query.Int(4);
    block.update_us = query.Int(5);
    MEMORYD_ASSIGN_OR_RETURN(block.state, ReadValue(db, query, 6));
  }
}

}  // namespace

absl::StatusOr<std::optional<LoadedSession>> LoadSession(Database& db, const SessionKey& key,
                                                         std::int64_t max_active_bytes) {
  const ReadTransaction transaction(db);
  MEMORYD_RETURN_IF_ERROR(transaction.status());
  LoadedSession loaded;
  {
    Query query = db.Prepare(kSelectSession);
    query.BindText(key.tenant).BindText(key.session);
    MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
    if (!found) return std::nullopt;
    MEMORYD_ASSIGN_OR_RETURN(loaded.row, ReadSessionRow(db, query));
  }
  const SessionRow& row = loaded.row;
  if (row.deleted) return loaded;
  MEMORYD_ASSIGN_OR_RETURN(loaded.blocks, ReadBlocks(db, key, row.block_generation));
  MEMORYD_ASSIGN_OR_RETURN(const std::int64_t active_bytes,
                           ReadActiveBytes(db, key, row, max_active_bytes));
  if (active_bytes > max_active_bytes) {
    loaded.too_large = active_bytes;
    return loaded;
  }
  for (const std::int64_t position : row.pinned) {
    if (position >= row.watermark) break;
    MEMORYD_RETURN_IF_ERROR(
        AppendRange(db, key, row.generation, {position, position + 1}, 1, kNoLimit, loaded.active));
  }
  if (row.opening > 0 && row.opening < row.watermark) {
    MEMORYD_RETURN_IF_ERROR(AppendRange(db, key, row.generation, {row.opening, row.opening + 1}, 1,
                                        kNoLimit, loaded.active));
  }
  MEMORYD_RETURN_IF_ERROR(AppendRange(db, key, row.generation, {row.watermark, row.next_position},
                                      kNoLimit, kNoLimit, loaded.active));
  return loaded;
}

absl::StatusOr<std::vector<MessagePtr>> ReadRange(Database& db, const SessionKey& key,
                                                  std::uint64_t generation, PositionRange range,
                                                  std::int64_t max_messages,
                                                  std::int64_t max_bytes) {
  std::vector<MessagePtr> messages;
  MEMORYD_RETURN_IF_ERROR(AppendRange(
      db, key, generation, range, std::max<std::int64_t>(0, max_messages), max_bytes, messages));
  return messages;
}

absl::StatusOr<std::vector<MessagePtr>> ReadNewest(Database& db, const SessionKey& key,
                                                   std::uint64_t generation, PositionRange range,
                                                   std::int64_t max_messages,
                                                   std::int64_t max_bytes) {
  std::vector<MessagePtr> messages;
  MEMORYD_RETURN_IF_ERROR(AppendRows(db, kSelectNewest, key, generation, range,
                                     std::max<std::int64_t>(0, max_messages), max_bytes, messages));
  return messages;
}

absl::StatusOr<std::vector<MessagePtr>> ReadPositions(Database& db, const SessionKey& key,
                                                      std::uint64_t generation,
                                                      std::span<const std::int64_t> positions,
                                                      std::int64_t max_bytes) {
  const ReadTransaction transaction(db);
  MEMORYD_RETURN_IF_ERROR(transaction.status());
  std::vector<MessagePtr> messages;
  std::int64_t bytes = 0;
  for (const std::int64_t position : positions) {
    const std::size_t before = messages.size();
    MEMORYD_RETURN_IF_ERROR(
        AppendRange(db, key, generation, {position, position + 1}, 1, kNoLimit, messages));
    if (messages.size() == before) continue;
    bytes += static_cast<std::int64_t>(messages.back()->body.size());
    if (bytes > max_bytes) return ReplyTooLarge();
  }
  return messages;
}

absl::StatusOr<std::vector<std::int64_t>> FindPositions(Database& db, const SessionKey& key,
                                                        std::uint64_t generation,
                                                        std::span<const std::string> message_ids) {
  const ReadTransaction transaction(db);
  MEMORYD_RETURN_IF_ERROR(transaction.status());
  std::vector<std::int64_t> positions;
  for (const std::string& id : message_ids) {
    Query query = db.Prepare(kSelectPosition);
    query.BindText(key.tenant).BindText(key.session).BindBits(generation).BindText(id);
    MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
    if (found) positions.push_back(query.Int(0));
  }
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  return positions;
}

absl::StatusOr<std::vector<RowSize>> ReadSizes(Database& db, const SessionKey& key,
                                               std::uint64_t generation, PositionRange range,
                                               std::int64_t max_rows) {
  Query query = db.Prepare(kSelectSizes);
  query.BindText(key.tenant)
      .BindText(key.session)
      .BindBits(generation)
      .Bind(range.begin)
      .Bind(range.end)
      .Bind(std::max<std::int64_t>(0, max_rows));
  std::vector<RowSize> sizes;
  for (;;) {
    MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
    if (!found) return sizes;
    if (query.IsNull(2)) return UnreadableRow();
    sizes.push_back({query.Int(0), query.Int(1), query.Int(2)});
  }
}

absl::StatusOr<std::vector<std::optional<SessionVersion>>> Revisions(
    Database& db, std::span<const SessionKey> keys) {
  const ReadTransaction transaction(db);
  MEMORYD_RETURN_IF_ERROR(transaction.status());
  std::vector<std::optional<SessionVersion>> versions(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    Query query = db.Prepare(kSelectVersion);
    query.BindText(keys[i].tenant).BindText(keys[i].session);
    MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
    if (found) versions[i] = SessionVersion{query.Bits(0), query.Int(1)};
  }
  return versions;
}

absl::StatusOr<std::vector<std::optional<RequestRecord>>> FindRequests(
    Database& db, const SessionKey& key, std::span<const std::string> request_ids) {
  const ReadTransaction transaction(db);
  MEMORYD_RETURN_IF_ERROR(transaction.status());
  std::vector<std::optional<RequestRecord>> records(request_ids.size());
  for (std::size_t i = 0; i < request_ids.size(); ++i) {
    Query query = db.Prepare(kSelectRequest);
    query.BindText(key.tenant).BindText(key.session).BindText(request_ids[i]);
    MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
    if (!found) continue;
    MEMORYD_ASSIGN_OR_RETURN(std::string reply, ReadValue(db, query, 1));
    records[i] = RequestRecord{request_ids[i], query.String(0), std::move(reply), query.Int(2)};
  }
  return records;
}

absl::StatusOr<SessionPage> ListSessions(Database& db, std::string_view tenant,
                                         std::string_view after, const SessionListLimits& limits) {
  const std::string behind = BehindPrefix(limits.prefix);
  Query query = db.Prepare(kListSessions);
  query.Bind(limits.with_configs ? 1 : 0)
      .BindText(tenant)
      .BindText(FirstId(after, limits))
      .BindText(behind)
      .Bind(1 + OneMoreThan(limits.max_sessions));
  return ReadListed(db, query, after, limits);
}

absl::StatusOr<SessionPage> ListSubject(Database& db, std::string_view tenant,
                                        std::string_view subject, std::string_view after,
                                        const SessionListLimits& limits, bool tombstones) {
  const std::string behind = BehindPrefix(limits.prefix);
  Query query = db.Prepare(kListSubject);
  query.Bind(limits.with_configs ? 1 : 0)
      .BindText(tenant)
      .BindText(FirstId(after, limits))
      .BindText(behind)
      .BindText(subject)
      .Bind(tombstones ? 1 : 0)
      .Bind(1 + OneMoreThan(limits.max_sessions));
  return ReadListed(db, query, after, limits);
}

absl::StatusOr<SessionPage> ListLatest(Database& db, std::string_view tenant,
                                       std::string_view subject, const LatestPlace& after,
                                       const SessionListLimits& limits) {
  const std::string behind = BehindPrefix(limits.prefix);
  Query query = db.Prepare(kListLatest);
  query.Bind(limits.with_configs ? 1 : 0)
      .BindText(tenant)
      .BindText(limits.prefix)
      .BindText(behind)
      .BindText(subject)
      .Bind(after.update_us)
      .Bind(after.update_us)
      .BindText(after.session)
      .Bind(OneMoreThan(limits.max_sessions));
  return ReadListed(db, query, /*after=*/{}, limits);
}

absl::StatusOr<std::vector<DueSession>> ListDueSessions(Database& db, std::int64_t now_us,
                                                        std::int64_t max_sessions) {
  std::vector<DueSession> due;
  for (const char* sql : {kListExpiring, kListDropping}) {
    Query query = db.Prepare(sql);
    query.Bind(kSmallConfigBytes).Bind(now_us).Bind(std::max<std::int64_t>(0, max_sessions));
    for (;;) {
      MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
      if (!found) break;
      MEMORYD_ASSIGN_OR_RETURN(SessionRow row, ReadSessionRow(db, query));
      due.push_back({{query.String(27), query.String(26)}, std::move(row)});
    }
  }
  return due;
}

absl::StatusOr<std::int64_t> CountRequests(Database& db, const SessionKey& key) {
  Query query = db.Prepare(kCountRequests);
  for (int i = 0; i < 3; ++i) query.BindText(key.tenant).BindText(key.session);
  MEMORYD_RETURN_IF_ERROR(query.Next().status());
  return query.Int(0);
}

absl::StatusOr<TenantUsage> ReadUsage(Database& db, std::string_view tenant) {
  Query query = db.Prepare(kSelectUsage);
  query.BindText(tenant);
  MEMORYD_RETURN_IF_ERROR(query.Next().status());
  return TenantUsage{query.Int(0), query.Int(1), query.Int(2)};
}

}  // namespace memoryd::sqlite
