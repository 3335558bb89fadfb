#include "core/storage/sqlite/sqlite_change.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/model/job.h"
#include "core/model/message.h"
#include "core/storage/before_schema_12.h"
#include "core/storage/checksum.h"
#include "core/storage/job_order.h"
#include "core/storage/sqlite/database.h"
#include "core/storage/sqlite/row_format.h"
#include "core/storage/sqlite/value.h"
#include "core/storage/store.h"
#include "core/storage/tool_ids.h"

namespace memoryd::sqlite {
namespace {

constexpr char kInsertSession[] =
    "INSERT INTO memoryd_sessions (generation, revision, next_position, floor_position, watermark,"
    " pinned, active_count, archived_count, active_tokens, content_generation, next_content,"
    " content_count, message_bytes, content_bytes, edit_revision, block_generation, create_us,"
    " update_us, deleted, commit_tag, opening, config, tenant, session)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO NOTHING";

constexpr char kUpdateSession[] =
    "UPDATE memoryd_sessions SET generation = ?, revision = ?, next_position = ?,"
    " floor_position = ?, watermark = ?, pinned = ?, active_count = ?, archived_count = ?,"
    " active_tokens = ?, content_generation = ?, next_content = ?, content_count = ?,"
    " message_bytes = ?, content_bytes = ?, edit_revision = ?, block_generation = ?,"
    " create_us = ?, update_us = ?, deleted = ?, commit_tag = ?, opening = ?"
    " WHERE tenant = ? AND session = ? AND revision = ?";

// Sets the columns that IsAppend() names.
constexpr char kAdvanceSession[] =
    "UPDATE memoryd_sessions SET revision = ?, next_position = ?, active_count = ?,"
    " active_tokens = ?, message_bytes = ?, update_us = ?, commit_tag = ?"
    " WHERE tenant = ? AND session = ? AND revision = ?";

// Apart from kUpdateSession, since it starts a trigger.
constexpr char kSetConfig[] =
    "UPDATE memoryd_sessions SET config = ? WHERE tenant = ? AND session = ?";

constexpr char kSetSubject[] =
    "UPDATE memoryd_sessions SET subject = ? WHERE tenant = ? AND session = ? AND subject <> ?";

// NULL: stays as it is.
constexpr char kSetExpiry[] =
    "UPDATE memoryd_sessions SET expire_us = coalesce(?, expire_us),"
    " drop_us = coalesce(?, drop_us), has_timed_items = coalesce(?, has_timed_items)"
    " WHERE tenant = ? AND session = ?";

constexpr char kInsertMessage[] =
    "INSERT INTO memoryd_messages (tenant, session, generation, position, message_id, role,"
    " token_count, ingest_us, tool_ids, body, checksum)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

constexpr char kEraseMessages[] =
    "DELETE FROM memoryd_messages"
    " WHERE tenant = ? AND session = ? AND generation = ? AND position >= ? AND position < ?";

constexpr char kReplaceMessage[] =
    "UPDATE memoryd_messages SET role = ?, token_count = ?, tool_ids = ?, body = ?, checksum = ?"
    " WHERE tenant = ? AND session = ? AND generation = ? AND position = ?";

constexpr char kUpsertBlock[] =
    "INSERT INTO memoryd_blocks (tenant, session, generation, name, done, next, entry_generation,"
    " next_entry, update_us, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET done = excluded.done, next = excluded.next,"
    " entry_generation = excluded.entry_generation, next_entry = excluded.next_entry,"
    " update_us = excluded.update_us, state = excluded.state";

constexpr char kEndJob[] =
    "UPDATE memoryd_jobs SET state = ?, update_us = ?, lease = 0, lease_until = 0,"
    " last_error = coalesce(?, last_error), calls = calls + ?, prompt_tokens = prompt_tokens + ?,"
    " completion_tokens = completion_tokens + ?"
    " WHERE tenant = ? AND session = ? AND generation = ? AND block = ? AND number = ?"
    " AND state = 0";

// 3 is JobState::kCancelled.
constexpr char kCancelJobs[] =
    "UPDATE memoryd_jobs SET state = 3, update_us = ?, lease = 0, lease_until = 0"
    " WHERE tenant = ? AND session = ? AND generation = ? AND state = 0";

constexpr char kInsertJob[] =
    "INSERT INTO memoryd_jobs (tenant, session, generation, block, number, message_generation,"
    " begin_position, end_position, state, attempts, create_us, update_us, due, ready, lease,"
    " lease_until, last_error, calls, prompt_tokens, completion_tokens)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

constexpr char kMarkJob[] =
    "UPDATE memoryd_jobs SET ready = 1"
    " WHERE tenant = ? AND session = ? AND generation = ? AND block = ? AND number = ?"
    " AND state = 0 AND ready = 0";

constexpr char kInsertRequest[] =
    "INSERT INTO memoryd_requests (tenant, session, request_id, fingerprint, reply, create_us)"
    " VALUES (?, ?, ?, ?, ?, ?)";

constexpr char kInsertGarbage[] =
    "INSERT INTO memoryd_garbage (tenant, session, generation, begin_position, end_position)"
    " VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET begin_position = min(begin_position, excluded.begin_position)";

constexpr char kInsertForgotten[] =
    "INSERT INTO memoryd_forgotten (tenant, session, before_us) VALUES (?, ?, ?)"
    " ON CONFLICT DO UPDATE SET before_us = max(before_us, excluded.before_us)";

bool IsInsert(const SessionChange& change) { return change.expected_revision == 0; }

// Whether the configuration is written by a statement of its own, once the revision has won. A new
// session's goes with the row, unless it is large.
bool IsSetApart(const SessionChange& change) {
  return change.write_config && (!IsInsert(change) || NewValue(change.row.config).is_large());
}

int AdvanceRow(Database& db, const SessionChange& change, bool& won) {
  const SessionRow& row = change.row;
  Query query = db.Prepare(kAdvanceSession);
  query.Bind(row.revision)
      .Bind(row.next_position)
      .Bind(row.active_count)
      .Bind(row.active_tokens)
      .Bind(row.message_bytes)
      .Bind(row.update_us)
      .BindBits(row.commit_tag)
      .BindText(change.key.tenant)
      .BindText(change.key.session)
      .Bind(change.expected_revision);
  const int code = query.Run();
  won = code == SQLITE_OK && db.changes() == 1;
  return code;
}

// Sets `won` to whether the stored revision was the expected one and the row was written, but for a
// configuration that IsSetApart().
int WriteRow(Database& db, const SessionChange& change, bool& won) {
  if (change.appends_only) return AdvanceRow(db, change, won);
  const SessionRow& row = change.row;
  const bool insert = IsInsert(change);
  const std::string pinned = EncodePositions(row.pinned);
  Query query = db.Prepare(insert ? kInsertSession : kUpdateSession);
  query.BindBits(row.generation)
      .Bind(row.revision)
      .Bind(row.next_position)
      .Bind(row.floor)
      .Bind(row.watermark)
      .BindText(pinned)
      .Bind(row.active_count)
      .Bind(row.archived_count)
      .Bind(row.active_tokens)
      .BindBits(row.content_generation)
      .Bind(row.next_content)
      .Bind(row.content_count)
      .Bind(row.message_bytes)
      .Bind(row.content_bytes)
      .Bind(row.edit_revision)
      .BindBits(row.block_generation)
      .Bind(row.create_us)
      .Bind(row.update_us)
      .Bind(row.deleted ? 1 : 0)
      .BindBits(row.commit_tag)
      .Bind(row.opening);
  if (insert) {
    const bool with_config = change.write_config && !IsSetApart(change);
    query.BindBlob(with_config ? std::string_view(row.config) : std::string_view());
  }
  query.BindText(change.key.tenant).BindText(change.key.session);
  if (!insert) query.Bind(change.expected_revision);
  const int code = query.Run();
  won = code == SQLITE_OK && db.changes() == 1;
  return code;
}

int SetConfig(Database& db, const SessionChange& change) {
  NewValue config(change.row.config);
  if (const int code = config.Store(db); code != SQLITE_OK) return code;
  Query query = db.Prepare(kSetConfig);
  config.BindTo(query);
  query.BindText(change.key.tenant).BindText(change.key.session);
  return query.Run();
}

int SetSubject(Database& db, const SessionChange& change) {
  Query query = db.Prepare(kSetSubject);
  query.BindText(change.row.subject)
      .BindText(change.key.tenant)
      .BindText(change.key.session)
      .BindText(change.row.subject);
  return query.Run();
}

int SetExpiry(Database& db, const SessionChange& change) {
  Query query = db.Prepare(kSetExpiry);
  const SessionRow& row = change.row;
  for (const auto& [written, value] :
       {std::pair(change.write_expire_us, row.expire_us),
        std::pair(change.write_drop_us, StoredDropUs(row)),
        std::pair(change.write_drop_us, std::int64_t{row.has_timed_items})}) {
    if (written) {
      query.Bind(value);
    } else {
      query.BindNull();
    }
  }
  query.BindText(change.key.tenant).BindText(change.key.session);
  return query.Run();
}

int EraseMessages(Database& db, const SessionChange& change, std::uint64_t generation,
                  PositionRange range) {
  Query query = db.Prepare(kEraseMessages);
  query.BindText(change.key.tenant)
      .BindText(change.key.session)
      .BindBits(generation)
      .Bind(range.begin)
      .Bind(range.end);
  return query.Run();
}

int StoreValues(Database& db, std::initializer_list<NewValue*> values) {
  for (NewValue* value : values) {
    if (const int code = value->Store(db); code != SQLITE_OK) return code;
  }
  return SQLITE_OK;
}

void BindToolIds(Query& query, const NewValue& ids) {
  if (ids.is_empty()) {
    query.BindNull();
  } else {
    ids.BindTo(query);
  }
}

int ReplaceMessage(Database& db, const SessionKey& key, std::uint64_t generation,
                   const Message& message) {
  const std::string tool_ids = EncodeToolIds(message);
  NewValue body(message.body), ids(tool_ids);
  if (const int code = StoreValues(db, {&body, &ids}); code != SQLITE_OK) return code;
  {
    Query query = db.Prepare(kReplaceMessage);
    query.Bind(static_cast<std::int64_t>(message.role)).Bind(message.token_count);
    BindToolIds(query, ids);
    body.BindTo(query);
    query.Bind(ChecksumOf(message, tool_ids))
        .BindText(key.tenant)
        .BindText(key.session)
        .BindBits(generation)
        .Bind(message.position);
    if (const int code = query.Run(); code != SQLITE_OK) return code;
  }
  if (db.changes() == 1) return SQLITE_OK;
  for (const NewValue* value : {&body, &ids}) {
    if (const int code = value->TakeBack(db); code != SQLITE_OK) return code;
  }
  return SQLITE_OK;
}

int InsertMessage(Database& db, const SessionKey& key, std::uint64_t generation,
                  const Message& message) {
  const std::string tool_ids = EncodeToolIds(message);
  NewValue body(message.body), ids(tool_ids);
  if (const int code = StoreValues(db, {&body, &ids}); code != SQLITE_OK) return code;
  Query query = db.Prepare(kInsertMessage);
  query.BindText(key.tenant).BindText(key.session).BindBits(generation).Bind(message.position);
  if (message.ids->message_id.empty()) {
    query.BindNull();
  } else {
    query.BindText(message.ids->message_id);
  }
  query.Bind(static_cast<std::int64_t>(message.role))
      .Bind(message.token_count)
      .Bind(message.ingest_us);
  BindToolIds(query, ids);
  body.BindTo(query);
  query.Bind(ChecksumOf(message, tool_ids));
  return query.Run();
}

int InsertMessages(Database& db, const SessionChange& change, CommitOutcome& outcome) {
  int code = SQLITE_OK;
  const auto insert = [&](std::uint64_t generation, const Message& message) {
    code = InsertMessage(db, change.key, generation, message);
    // The one unique index; a position doubled would be SQLITE_CONSTRAINT_PRIMARYKEY.
    if (code == SQLITE_CONSTRAINT_UNIQUE) outcome = CommitOutcome::kMessageIdTaken;
    return code == SQLITE_OK;
  };
  for (const MessagePtr& message : change.messages) {
    if (!insert(change.row.generation, *message)) return code;
  }
  for (const ContentPtr& content : change.contents) {
    if (!insert(change.row.content_generation, *content)) return code;
  }
  for (const BlockEntry& entry : change.entries) {
    if (!insert(entry.generation, *entry.row)) return code;
  }
  return SQLITE_OK;
}

int WriteBlock(Database& db, const SessionChange& change, const BlockState& block) {
  NewValue state(block.state);
  if (const int code = state.Store(db); code != SQLITE_OK) return code;
  Query query = db.Prepare(kUpsertBlock);
  query.BindText(change.key.tenant)
      .BindText(change.key.session)
      .BindBits(change.row.block_generation)
      .BindText(block.name)
      .Bind(block.done)
      .Bind(block.next)
      .BindBits(block.entry_generation)
      .Bind(block.next_entry)
      .Bind(block.update_us);
  state.BindTo(query);
  return query.Run();
}

int EndJob(Database& db, const SessionChange& change, const JobEnd& end) {
  Query query = db.Prepare(kEndJob);
  query.Bind(static_cast<std::int64_t>(end.state)).Bind(change.row.update_us);
  if (end.error.empty()) {
    query.BindNull();
  } else {
    query.BindBlob(end.error);
  }
  query.Bind(end.usage.calls)
      .Bind(end.usage.prompt_tokens)
      .Bind(end.usage.completion_tokens)
      .BindText(change.key.tenant)
      .BindText(change.key.session)
      .BindBits(end.key.generation)
      .BindText(end.key.block)
      .Bind(end.key.number);
  return query.Run();
}

int CancelJobs(Database& db, const SessionChange& change) {
  Query query = db.Prepare(kCancelJobs);
  query.Bind(change.row.update_us)
      .BindText(change.key.tenant)
      .BindText(change.key.session)
      .BindBits(change.cancel_jobs_of);
  return query.Run();
}

int InsertJob(Database& db, const SessionChange& change, const Job& job, std::int64_t now_us) {
  Query query = db.Prepare(kInsertJob);
  query.BindText(change.key.tenant)
      .BindText(change.key.session)
      .BindBits(change.row.block_generation)
      .BindText(job.key.block)
      .Bind(job.key.number)
      .BindBits(job.message_generation)
      .Bind(job.begin)
      .Bind(job.end)
      .Bind(static_cast<std::int64_t>(job.state))
      .Bind(job.attempts)
      .Bind(job.create_us)
      .Bind(job.update_us)
      .Bind(now_us)
      .Bind(IsReady(change, job) ? 1 : 0)
      .BindBits(job.lease)
      .Bind(job.lease == 0 ? 0 : now_us + job.lease_until_us)
      .BindBlob(job.last_error)
      .Bind(job.usage.calls)
      .Bind(job.usage.prompt_tokens)
      .Bind(job.usage.completion_tokens);
  return query.Run();
}

int MarkJob(Database& db, const SessionChange& change, const BlockJob& job) {
  Query query = db.Prepare(kMarkJob);
  query.BindText(change.key.tenant)
      .BindText(change.key.session)
      .BindBits(change.row.block_generation)
      .BindText(*job.block)
      .Bind(job.number);
  return query.Run();
}

// Ends before it begins: a job that this change makes is neither ended nor cancelled by it.
int WriteBlocksAndJobs(Database& db, const SessionChange& change) {
  for (const BlockState& block : change.blocks) {
    if (const int code = WriteBlock(db, change, block); code != SQLITE_OK) return code;
  }
  for (const JobEnd& end : change.ended_jobs) {
    if (const int code = EndJob(db, change, end); code != SQLITE_OK) return code;
  }
  if (change.cancel_jobs_of != 0) {
    if (const int code = CancelJobs(db, change); code != SQLITE_OK) return code;
  }
  for (const BlockJob& job : JobsToMark(change)) {
    if (const int code = MarkJob(db, change, job); code != SQLITE_OK) return code;
  }
  const std::int64_t now_us = change.jobs.empty() ? 0 : NowUs();
  for (const Job& job : change.jobs) {
    if (const int code = InsertJob(db, change, job, now_us); code != SQLITE_OK) return code;
  }
  return SQLITE_OK;
}

int InsertRequest(Database& db, const SessionKey& key, const RequestRecord& request) {
  NewValue reply(request.reply);
  if (const int code = reply.Store(db); code != SQLITE_OK) return code;
  Query query = db.Prepare(kInsertRequest);
  query.BindText(key.tenant)
      .BindText(key.session)
      .BindText(request.request_id)
      .BindBlob(request.fingerprint);
  reply.BindTo(query);
  query.Bind(request.create_us);
  return query.Run();
}

int InsertGarbage(Database& db, const SessionKey& key, const Garbage& garbage) {
  Query query = db.Prepare(kInsertGarbage);
  query.BindText(key.tenant)
      .BindText(key.session)
      .BindBits(garbage.generation)
      .Bind(garbage.begin)
      .Bind(garbage.end);
  return query.Run();
}

// The columns of the session's row that few commits change.
int WriteRareColumns(Database& db, const SessionChange& change) {
  if (IsSetApart(change)) {
    if (const int code = SetConfig(db, change); code != SQLITE_OK) return code;
  }
  if (change.write_config) {
    if (const int code = SetSubject(db, change); code != SQLITE_OK) return code;
  }
  if (change.write_expire_us || change.write_drop_us) return SetExpiry(db, change);
  return SQLITE_OK;
}

int EraseRows(Database& db, const SessionChange& change) {
  for (const PositionRange& range : change.erase) {
    const int code = EraseMessages(db, change, change.row.generation, range);
    if (code != SQLITE_OK) return code;
  }
  for (const EntryRange& erased : change.erased_entries) {
    const int code = EraseMessages(db, change, erased.generation, erased.positions);
    if (code != SQLITE_OK) return code;
  }
  return SQLITE_OK;
}

int ReplaceRows(Database& db, const SessionKey& key, std::uint64_t generation,
                const std::vector<MessagePtr>& rows) {
  for (const MessagePtr& row : rows) {
    if (const int code = ReplaceMessage(db, key, generation, *row); code != SQLITE_OK) return code;
  }
  return SQLITE_OK;
}

// Sets `outcome` where it can't be kFailed.
int InsertRequests(Database& db, const SessionChange& change, CommitOutcome& outcome) {
  for (const RequestRecord& request : change.requests) {
    const int code = InsertRequest(db, change.key, request);
    if (code == SQLITE_CONSTRAINT_PRIMARYKEY) outcome = CommitOutcome::kRequestIdTaken;
    if (code != SQLITE_OK) return code;
  }
  return SQLITE_OK;
}

int ForgetRequests(Database& db, const SessionKey& key, std::int64_t before_us) {
  {
    Query query = db.Prepare(kInsertForgotten);
    query.BindText(key.tenant).BindText(key.session).Bind(before_us);
    if (const int code = query.Run(); code != SQLITE_OK) return code;
  }
  return InsertGarbage(db, key, {kForgottenGeneration, 0, before_us});
}

}  // namespace

int WriteChange(Database& db, const SessionChange& change, CommitOutcome& outcome) {
  outcome = CommitOutcome::kFailed;
  bool won = false;
  if (const int code = WriteRow(db, change, won); code != SQLITE_OK) return code;
  if (!won) {
    outcome = CommitOutcome::kRevisionLost;
    return SQLITE_OK;
  }
  if (const int code = WriteRareColumns(db, change); code != SQLITE_OK) return code;
  if (const int code = EraseRows(db, change); code != SQLITE_OK) return code;
  if (const int code = ReplaceRows(db, change.key, change.row.generation, change.replaced);
      code != SQLITE_OK) {
    return code;
  }
  if (const int code =
          ReplaceRows(db, change.key, change.row.content_generation, change.replaced_contents);
      code != SQLITE_OK) {
    return code;
  }
  if (const int code = InsertMessages(db, change, outcome); code != SQLITE_OK) return code;
  if (const int code = WriteBlocksAndJobs(db, change); code != SQLITE_OK) return code;
  if (const int code = InsertRequests(db, change, outcome); code != SQLITE_OK) return code;
  for (const Garbage& garbage : change.garbage) {
    if (const int code = InsertGarbage(db, change.key, garbage); code != SQLITE_OK) return code;
  }
  if (change.forget_requests_before_us > 0) {
    const int code = ForgetRequests(db, change.key, change.forget_requests_before_us);
    if (code != SQLITE_OK) return code;
  }
  outcome = CommitOutcome::kCommitted;
  return SQLITE_OK;
}

}  // namespace memoryd::sqlite
