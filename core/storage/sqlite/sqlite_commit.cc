#include "core/storage/sqlite/sqlite_commit.h"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "core/base/failpoint.h"
#include "core/storage/sqlite/database.h"
#include "core/storage/sqlite/sqlite_change.h"
#include "core/storage/store.h"

namespace memoryd::sqlite {
namespace {

constexpr char kBegin[] = "BEGIN IMMEDIATE";
constexpr char kCommit[] = "COMMIT";
constexpr char kSavepoint[] = "SAVEPOINT change";
constexpr char kRollbackTo[] = "ROLLBACK TO change";
constexpr char kRelease[] = "RELEASE change";

constexpr char kSelectVersion[] =
    "SELECT revision, commit_tag FROM memoryd_sessions WHERE tenant = ? AND session = ?";

// Whether `code` says that this change can't be stored, rather than that none can.
bool IsOfTheChange(int code) {
  const int primary = code & 0xFF;
  return primary == SQLITE_CONSTRAINT || primary == SQLITE_TOOBIG;
}

// Writes the change whole or not at all into the open transaction. A code other than SQLITE_OK
// ends the transaction.
int WriteChangeApart(Database& db, const SessionChange& change, CommitResult& result) {
  if (const int code = db.Run(kSavepoint); code != SQLITE_OK) return code;
  const int code = WriteChange(db, change, result.outcome);
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

// All changes in one transaction; each `apart`, under a savepoint of its own, so that one that
// can't be stored does not undo the others. Without savepoints nothing is stored then: null.
std::optional<std::vector<CommitResult>> CommitOnce(Database& db,
                                                    std::span<const SessionChange> changes,
                                                    bool apart) {
  if (const int code = db.Run(kBegin); code != SQLITE_OK) return AllFailed(changes.size(), code);
  // Should something be thrown: a transaction left open would hold up all that come after.
  const absl::Cleanup end = [&db] { db.Rollback(); };
  ReachFailpoint("commit_begun");
  std::vector<CommitResult> results(changes.size());
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const int code = apart ? WriteChangeApart(db, changes[i], results[i])
                           : WriteChange(db, changes[i], results[i].outcome);
    if (code == SQLITE_OK) continue;
    db.Rollback();
    if (!apart && IsOfTheChange(code)) return std::nullopt;
    return AllFailed(changes.size(), code);
  }
  ReachFailpoint("commit_sent");
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

}  // namespace

std::vector<CommitResult> CommitChanges(Database& db, std::span<const SessionChange> changes) {
  // Under a savepoint the first change of a page copies it, see docs/adr/0024. Changes that can't
  // be stored are rare; a batch with one of them is written twice.
  if (auto results = CommitOnce(db, changes, /*apart=*/false); results.has_value()) return *results;
  return *CommitOnce(db, changes, /*apart=*/true);
}

}  // namespace memoryd::sqlite
