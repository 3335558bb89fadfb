#include "core/storage/sqlite/sqlite_commit.h"

#include <string>

#include "core/storage/sqlite/row_format.h"
#include "core/storage/tool_ids.h"

namespace memoryd::sqlite {
namespace {

constexpr char kBegin[] = "BEGIN IMMEDIATE";
constexpr char kCommit[] = "COMMIT";
constexpr char kSavepoint[] = "SAVEPOINT change";
constexpr char kRollbackTo[] = "ROLLBACK TO change";
constexpr char kRelease[] = "RELEASE change";

constexpr char kInsertSession[] =
    "INSERT INTO memoryd_sessions (generation, revision, next_position, floor_position, watermark,"
    " pinned, active_count, archived_count, active_tokens, create_us, update_us, deleted,"
    " commit_tag, config, tenant, session)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO NOTHING";

constexpr char kUpdateSession[] =
    "UPDATE memoryd_sessions SET generation = ?, revision = ?, next_position = ?,"
    " floor_position = ?, watermark = ?, pinned = ?, active_count = ?, archived_count = ?,"
    " active_tokens = ?, create_us = ?, update_us = ?, deleted = ?, commit_tag = ?,"
    " config = coalesce(?, config)"
    " WHERE tenant = ? AND session = ? AND revision = ?";

constexpr char kInsertMessage[] =
    "INSERT INTO memoryd_messages (tenant, session, generation, position, message_id, role,"
    " token_count, ingest_us, tool_ids, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

constexpr char kEraseMessages[] =
    "DELETE FROM memoryd_messages"
    " WHERE tenant = ? AND session = ? AND generation = ? AND position >= ? AND position < ?";

constexpr char kInsertRequest[] =
    "INSERT INTO memoryd_requests (tenant, session, request_id, fingerprint, reply, create_us)"
    " VALUES (?, ?, ?, ?, ?, ?)";

constexpr char kInsertGarbage[] =
    "INSERT INTO memoryd_garbage (tenant, session, generation, begin_position, end_position)"
    " VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET begin_position = min(begin_position, excluded.begin_position)";

constexpr char kSelectVersion[] =
    "SELECT revision, commit_tag FROM memoryd_sessions WHERE tenant = ? AND session = ?";

int Done(int code) { return code == SQLITE_DONE ? SQLITE_OK : code; }

// Whether `code` says that this change can't be stored, rather than that none can.
bool IsOfTheChange(int code) {
  const int primary = code & 0xFF;
  return primary == SQLITE_CONSTRAINT || primary == SQLITE_TOOBIG;
}

// Sets `won` to whether the stored revision was the expected one and the row was written.
int WriteRow(Database& db, const SessionChange& change, bool& won) {
  const SessionRow& row = change.row;
  const bool insert = change.expected_revision == 0;
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
      .Bind(row.create_us)
      .Bind(row.update_us)
      .Bind(row.deleted ? 1 : 0)
      .BindBits(row.commit_tag);
  if (change.write_config) {
    query.BindBlob(row.config);
  } else if (insert) {
    query.BindBlob({});
  } else {
    query.BindNull();
  }
  query.BindText(change.key.tenant).BindText(change.key.session);
  if (!insert) query.Bind(change.expected_revision);
  const int code = Done(query.Step());
  won = code == SQLITE_OK && db.changes() == 1;
  return code;
}

int EraseMessages(Database& db, const SessionChange& change) {
  Query query = db.Prepare(kEraseMessages);
  query.BindText(change.key.tenant)
      .BindText(change.key.session)
      .BindBits(change.row.generation)
      .Bind(change.erase->begin)
      .Bind(change.erase->end);
  return Done(query.Step());
}

int InsertMessage(Database& db, const SessionChange& change, const Message& message) {
  const std::string tool_ids = EncodeToolIds(message);
  Query query = db.Prepare(kInsertMessage);
  query.BindText(change.key.tenant)
      .BindText(change.key.session)
      .BindBits(change.row.generation)
      .Bind(message.position);
  if (message.message_id.empty()) {
    query.BindNull();
  } else {
    query.BindText(message.message_id);
  }
  query.Bind(static_cast<std::int64_t>(message.role))
      .Bind(message.token_count)
      .Bind(message.ingest_us);
  if (tool_ids.empty()) {
    query.BindNull();
  } else {
    query.BindBlob(tool_ids);
  }
  query.BindBlob(message.body);
  return Done(query.Step());
}

int InsertRequest(Database& db, const SessionKey& key, const RequestRecord& request) {
  Query query = db.Prepare(kInsertRequest);
  query.BindText(key.tenant)
      .BindText(key.session)
      .BindText(request.request_id)
      .BindBlob(request.fingerprint)
      .BindBlob(request.reply)
      .Bind(request.create_us);
  return Done(query.Step());
}

int InsertGarbage(Database& db, const SessionKey& key, const Garbage& garbage) {
  Query query = db.Prepare(kInsertGarbage);
  query.BindText(key.tenant)
      .BindText(key.session)
      .BindBits(garbage.generation)
      .Bind(garbage.begin)
      .Bind(garbage.end);
  return Done(query.Step());
}

// The first code other than SQLITE_OK ends it. `outcome` is what that code means, and is
// kRevisionLost, with SQLITE_OK and nothing written, for a lost revision.
int WriteParts(Database& db, const SessionChange& change, CommitOutcome& outcome) {
  outcome = CommitOutcome::kFailed;
  bool won = false;
  if (const int code = WriteRow(db, change, won); code != SQLITE_OK) return code;
  if (!won) {
    outcome = CommitOutcome::kRevisionLost;
    return SQLITE_OK;
  }
  if (change.erase.has_value()) {
    if (const int code = EraseMessages(db, change); code != SQLITE_OK) return code;
  }
  for (const MessagePtr& message : change.messages) {
    if (const int code = InsertMessage(db, change, *message); code != SQLITE_OK) {
      // The one unique index; a position doubled would be SQLITE_CONSTRAINT_PRIMARYKEY.
      if (code == SQLITE_CONSTRAINT_UNIQUE) outcome = CommitOutcome::kMessageIdTaken;
      return code;
    }
  }
  for (const RequestRecord& request : change.requests) {
    if (const int code = InsertRequest(db, change.key, request); code != SQLITE_OK) {
      if (code == SQLITE_CONSTRAINT_PRIMARYKEY) outcome = CommitOutcome::kRequestIdTaken;
      return code;
    }
  }
  if (change.garbage.has_value()) {
    if (const int code = InsertGarbage(db, change.key, *change.garbage); code != SQLITE_OK) {
      return code;
    }
  }
  outcome = CommitOutcome::kCommitted;
  return SQLITE_OK;
}

// Writes the change whole or not at all into the open transaction. A code other than SQLITE_OK
// ends the transaction.
int WriteChange(Database& db, const SessionChange& change, CommitResult& result) {
  if (const int code = db.Run(kSavepoint); code != SQLITE_OK) return code;
  const int code = WriteParts(db, change, result.outcome);
  if (code != SQLITE_OK) {
    if (!IsOfTheChange(code)) return code;
    if (result.outcome == CommitOutcome::kFailed) result.status = ToStatus(code);
    if (const int undone = db.Run(kRollbackTo); undone != SQLITE_OK) return undone;
  }
  return db.Run(kRelease);
}

void SetCommitted(std::vector<CommitResult>& results, CommitOutcome outcome,
                  const absl::Status& status) {
  for (CommitResult& result : results) {
    if (result.outcome == CommitOutcome::kCommitted) result = {outcome, status};
  }
}

std::vector<CommitResult> AllFailed(std::size_t count, int code) {
  return std::vector<CommitResult>(count, {CommitOutcome::kFailed, ToStatus(code)});
}

// What became of `change` after the log was emptied.
CommitResult Settle(Database& db, const SessionChange& change, const absl::Status& error) {
  Query query = db.Prepare(kSelectVersion);
  query.BindText(change.key.tenant).BindText(change.key.session);
  const int code = query.Step();
  if (code == SQLITE_ROW && query.Int(0) == change.row.revision &&
      query.Bits(1) == change.row.commit_tag) {
    return {CommitOutcome::kCommitted, absl::OkStatus()};
  }
  if (code != SQLITE_ROW && code != SQLITE_DONE) return {CommitOutcome::kUnknown, error};
  return {CommitOutcome::kFailed, error};
}

// After an I/O error at COMMIT this process no longer sees the transaction, but all of it may stand
// in the log, and recovery after a crash would bring it back. An emptied log settles that.
void SettleAll(Database& db, std::span<const SessionChange> changes, const absl::Status& error,
               std::vector<CommitResult>& results) {
  if (db.TruncateLog() != SQLITE_OK) {
    SetCommitted(results, CommitOutcome::kUnknown, error);
    return;
  }
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (results[i].outcome == CommitOutcome::kCommitted) results[i] = Settle(db, changes[i], error);
  }
}

}  // namespace

std::vector<CommitResult> CommitChanges(Database& db, std::span<const SessionChange> changes) {
  if (const int code = db.Run(kBegin); code != SQLITE_OK) return AllFailed(changes.size(), code);
  std::vector<CommitResult> results(changes.size());
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (const int code = WriteChange(db, changes[i], results[i]); code != SQLITE_OK) {
      db.Rollback();
      return AllFailed(changes.size(), code);
    }
  }
  const int code = db.Run(kCommit);
  if (code == SQLITE_OK) return results;
  db.Rollback();
  if ((code & 0xFF) == SQLITE_IOERR) {
    SettleAll(db, changes, ToStatus(code), results);
  } else {
    // The log lacks at least the end of the transaction (full), or all of it (busy).
    SetCommitted(results, CommitOutcome::kFailed, ToStatus(code));
  }
  return results;
}

}  // namespace memoryd::sqlite
