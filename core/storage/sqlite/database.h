// One connection to SQLite and its prepared statements.
#ifndef MEMORYD_CORE_STORAGE_SQLITE_DATABASE_H_
#define MEMORYD_CORE_STORAGE_SQLITE_DATABASE_H_

#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"

namespace memoryd::sqlite {

// The status for an extended result code, which its cause names; OK for SQLITE_OK, SQLITE_ROW and
// SQLITE_DONE.
absl::Status ToStatus(int code);

// Microseconds since the epoch. The clock of leases and due times: one process holds the store.
std::int64_t NowUs();

// DATA_LOSS for a stored row that this binary cannot have written.
absl::Status UnreadableRow();

// A prepared statement in use. Parameters are bound in order and borrowed until the query ends;
// columns are read by number after Next() gave true. The destructor makes the statement reusable.
class Query {
 public:
  Query(sqlite3_stmt* statement, int code) : statement_(statement), code_(code) {}
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  Query& Bind(std::int64_t value);
  // SQLite has no unsigned integers: kept as the same 64 bits.
  Query& BindBits(std::uint64_t value);
  Query& BindText(std::string_view value);
  Query& BindBlob(std::string_view value);
  Query& BindNull();

  // SQLITE_ROW, SQLITE_DONE or an extended error code, also one of preparing or binding.
  int Step();
  // Of a statement without rows: SQLITE_OK or an extended error code.
  int Run();
  // True for a row, false at the end.
  absl::StatusOr<bool> Next();

  // Not text, a blob or NULL.
  bool IsInteger(int column) const {
    return sqlite3_column_type(statement_, column) == SQLITE_INTEGER;
  }
  bool IsNull(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  std::int64_t Int(int column) const { return sqlite3_column_int64(statement_, column); }
  std::uint64_t Bits(int column) const { return static_cast<std::uint64_t>(Int(column)); }
  // Valid until the next Step(). Text and blobs alike, NUL bytes included; empty for NULL.
  std::string_view Bytes(int column) const;
  std::string String(int column) const { return std::string(Bytes(column)); }

 private:
  void Note(int code);

  sqlite3_stmt* const statement_;
  int code_;
  int parameter_ = 0;
};

// A connection. One thread at a time.
class Database {
 public:
  enum class Use { kWrite, kRead };

  // `file` is a path or `:memory:`. A writer puts the file into WAL mode with synchronous=FULL.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& file, Use use,
                                                        int busy_timeout_ms);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // The statement is prepared once per connection and found again by address: `sql` must be a
  // constant, and only one query of each may be in use.
  Query Prepare(const char* sql);

  // Runs a statement without parameters or rows; an extended result code, SQLITE_OK when done.
  int Run(const char* sql);

  // Runs statements separated by semicolons, unprepared.
  absl::Status Script(const char* sql);

  // Rows that the last INSERT, UPDATE or DELETE changed.
  std::int64_t changes() const { return sqlite3_changes64(db_); }
  // The id of the newest row, after an INSERT into a table that gives its rows ids.
  std::int64_t last_inserted_id() const { return sqlite3_last_insert_rowid(db_); }
  bool in_transaction() const { return sqlite3_get_autocommit(db_) == 0; }

  // Ends the transaction, if SQLite has not done so itself.
  void Rollback();

  // Copies all of the write-ahead log into the database and empties it; waits for readers up to
  // the busy timeout, or for so many milliseconds. An extended result code.
  int TruncateLog();
  int TruncateLog(int wait_ms);

  // Copies all of the write-ahead log into the database; waits for readers up to the busy timeout.
  // An extended result code.
  int CopyLog();

  // When the last connection closes, the log stays as it is: neither copied nor removed.
  void KeepLogAtClose();

  // SQLite's index of the log, in memory that lives as long as the connection. Null in memory.
  const volatile void* LogIndex();

  // `may_copy` is asked at each commit, on the committing thread and before the log is copied into
  // the database, which false prevents. It may not use the connection.
  void OnCommit(std::function<bool()> may_copy) { may_copy_ = std::move(may_copy); }

 private:
  struct FinalizeStatement {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };

  Database(sqlite3* db, int busy_timeout_ms) : db_(db), busy_timeout_ms_(busy_timeout_ms) {}

  static int AfterCommit(void* self, sqlite3* db, const char* name, int frames);

  sqlite3* const db_;
  const int busy_timeout_ms_;
  std::function<bool()> may_copy_;
  std::unordered_map<const char*, std::unique_ptr<sqlite3_stmt, FinalizeStatement>> statements_;
};

// A transaction that reads one state of the database throughout.
class ReadTransaction {
 public:
  explicit ReadTransaction(Database& db) : db_(db), status_(ToStatus(db.Run("BEGIN"))) {}
  ~ReadTransaction() { db_.Rollback(); }
  ReadTransaction(const ReadTransaction&) = delete;
  ReadTransaction& operator=(const ReadTransaction&) = delete;

  // Of beginning it.
  const absl::Status& status() const { return status_; }

 private:
  Database& db_;
  const absl::Status status_;
};

inline constexpr char kBeginWrite[] = "BEGIN IMMEDIATE";
inline constexpr char kCommitWrite[] = "COMMIT";

// Runs `change`, which returns an absl::Status or an absl::StatusOr, as a transaction that writes.
// An error undoes what it did, and is returned.
template <typename Change>
auto InWriteTransaction(Database& db, const Change& change) -> decltype(change()) {
  MEMORYD_RETURN_IF_ERROR(ToStatus(db.Run(kBeginWrite)));
  const absl::Cleanup end = [&db] { db.Rollback(); };
  auto changed = change();
  if (!changed.ok()) return changed;
  MEMORYD_RETURN_IF_ERROR(ToStatus(db.Run(kCommitWrite)));
  return changed;
}

}  // namespace memoryd::sqlite

#endif  // MEMORYD_CORE_STORAGE_SQLITE_DATABASE_H_
