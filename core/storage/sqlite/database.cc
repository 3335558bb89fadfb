#include "core/storage/sqlite/database.h"

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error_cause.h"
#include "core/base/status_macros.h"

namespace memoryd::sqlite {
namespace {

constexpr char kRollback[] = "ROLLBACK";

// Of both: the read opens the log now. Later somebody may have put another file in its place.

// secure_delete: what a caller erased shall not be left in free pages. journal_size_limit: a burst
// shall not leave a large log behind for ever. temp_store: savepoints and sorting touch no file.
constexpr char kWriterSettings[] =
    "PRAGMA synchronous=FULL;"
    "PRAGMA secure_delete=ON;"
    "PRAGMA journal_size_limit=67108864;"
    "PRAGMA temp_store=MEMORY;"
    "PRAGMA cache_size=-16384;"
    "SELECT count(*) FROM sqlite_schema;";

constexpr char kReaderSettings[] =
    "PRAGMA query_only=ON;"
    "PRAGMA temp_store=MEMORY;"
    "SELECT count(*) FROM sqlite_schema;";

// Frames in the log from which on a commit copies it into the database: four times the default, so
// that pages that change often are copied less, and a commit has to wait for the copying, with its
// two syncs, more rarely.
constexpr int kCopiedFrames = 4000;

// For a value without bytes too a pointer that is not null, which would bind NULL.
const char* Data(std::string_view value) { return value.empty() ? "" : value.data(); }

absl::Status CallersStatus(int code) {
  switch (code & 0xFF) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
      return absl::OkStatus();
    case SQLITE_FULL:
      return absl::ResourceExhaustedError("the store's disk is full");
    case SQLITE_NOMEM:
      return absl::ResourceExhaustedError("the store is out of memory");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError("the store is busy");
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
      return absl::UnavailableError("the store's file can't be read or written");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError("the store's file is damaged or no memoryd store");
    default:
      return absl::InternalError(fmt::format("SQLite: {} ({})", sqlite3_errstr(code), code));
  }
}

// The names of primary result codes that an operator can do something about.
const char* NameOf(int code) {
  switch (code & 0xFF) {
    case SQLITE_BUSY:
      return "SQLITE_BUSY";
    case SQLITE_LOCKED:
      return "SQLITE_LOCKED";
    case SQLITE_NOMEM:
      return "SQLITE_NOMEM";
    case SQLITE_READONLY:
      return "SQLITE_READONLY";
    case SQLITE_IOERR:
      return "SQLITE_IOERR";
    case SQLITE_CORRUPT:
      return "SQLITE_CORRUPT";
    case SQLITE_FULL:
      return "SQLITE_FULL";
    case SQLITE_CANTOPEN:
      return "SQLITE_CANTOPEN";
    case SQLITE_NOTADB:
      return "SQLITE_NOTADB";
    default:
      return "SQLITE_ERROR";
  }
}

}  // namespace

bool IsBusy(int code) {
  const int primary = code & 0xFF;
  return primary == SQLITE_BUSY || primary == SQLITE_LOCKED;
}

absl::Status ToStatus(int code) {
  absl::Status status = CallersStatus(code);
  if (status.ok()) return status;
  return WithCause(std::move(status), NameOf(code),
                   fmt::format("{} ({})", sqlite3_errstr(code), code));
}

std::int64_t NowUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

absl::Status UnreadableRow() { return absl::DataLossError("a stored row can't be read back"); }

Query::~Query() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

void Query::Note(int code) {
  if (code_ == SQLITE_OK) code_ = code;
}

Query& Query::Bind(std::int64_t value) {
  Note(sqlite3_bind_int64(statement_, ++parameter_, value));
  return *this;
}

Query& Query::BindBits(std::uint64_t value) { return Bind(static_cast<std::int64_t>(value)); }

Query& Query::BindText(std::string_view value) {
  Note(sqlite3_bind_text64(statement_, ++parameter_, Data(value), value.size(), SQLITE_STATIC,
                           SQLITE_UTF8));
  return *this;
}

Query& Query::BindBlob(std::string_view value) {
  Note(sqlite3_bind_blob64(statement_, ++parameter_, Data(value), value.size(), SQLITE_STATIC));
  return *this;
}

Query& Query::BindNull() {
  Note(sqlite3_bind_null(statement_, ++parameter_));
  return *this;
}

int Query::Step() { return code_ == SQLITE_OK ? sqlite3_step(statement_) : code_; }

absl::StatusOr<bool> Query::Next() {
  const int code = Step();
  MEMORYD_RETURN_IF_ERROR(ToStatus(code));
  return code == SQLITE_ROW;
}

int Query::Run() {
  const int code = Step();
  return code == SQLITE_DONE ? SQLITE_OK : code;
}

std::string_view Query::Bytes(int column) const {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  if (data == nullptr) return {};
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& file, Use use,
                                                         int busy_timeout_ms) {
  // Nobody reads SQLite's count of its memory, which takes a mutex at every allocation.
  static const int kUncounted = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  (void)kUncounted;
  sqlite3* handle = nullptr;
  // Without SQLite's own mutexes: the pool gives a connection to one thread at a time.
  const int code =
      sqlite3_open_v2(file.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  std::unique_ptr<Database> db(new Database(handle, busy_timeout_ms));
  MEMORYD_RETURN_IF_ERROR(ToStatus(code));
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, busy_timeout_ms);
  if (use == Use::kRead) {
    MEMORYD_RETURN_IF_ERROR(db->Script(kReaderSettings));
    return db;
  }
  {
    Query mode = db->Prepare("PRAGMA journal_mode=WAL");
    MEMORYD_RETURN_IF_ERROR(mode.Next().status());
    if (mode.Bytes(0) != "wal" && mode.Bytes(0) != "memory") {
      return absl::FailedPreconditionError(
          "the store's file system doesn't allow SQLite's write-ahead log");
    }
    // The row comes before the file is changed: only the end of the statement says that it was.
    // With a rollback journal instead, a loss of power could undo what was acknowledged.
    MEMORYD_RETURN_IF_ERROR(mode.Next().status());
  }
  MEMORYD_RETURN_IF_ERROR(db->Script(kWriterSettings));
  // In place of wal_autocheckpoint, which asks nobody.
  sqlite3_wal_hook(handle, &Database::AfterCommit, db.get());
  return db;
}

int Database::AfterCommit(void* self, sqlite3* db, const char* name, int frames) {
  const auto& may_copy = static_cast<Database*>(self)->may_copy_;
  const bool copy = may_copy == nullptr || may_copy();
  // Whether that succeeds is no matter of this commit.
  if (copy && frames >= kCopiedFrames) {
    sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  }
  return SQLITE_OK;
}

Database::~Database() {
  statements_.clear();
  sqlite3_close(db_);
}

Query Database::Prepare(const char* sql) {
  auto& statement = statements_[sql];
  int code = SQLITE_OK;
  if (statement == nullptr) {
    sqlite3_stmt* prepared = nullptr;
    code = sqlite3_prepare_v3(db_, sql, -1, SQLITE_PREPARE_PERSISTENT, &prepared, nullptr);
    statement.reset(prepared);
  }
  return Query(statement.get(), code);
}

int Database::Run(const char* sql) { return Prepare(sql).Run(); }

absl::Status Database::Script(const char* sql) {
  return ToStatus(sqlite3_exec(db_, sql, nullptr, nullptr, nullptr));
}

void Database::Rollback() {
  if (in_transaction()) Run(kRollback);
}

int Database::TruncateLog() {
  return sqlite3_wal_checkpoint_v2(db_, nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
}

int Database::TruncateLog(int wait_ms) {
  sqlite3_busy_timeout(db_, wait_ms);
  const int code = TruncateLog();
  sqlite3_busy_timeout(db_, busy_timeout_ms_);
  return code;
}

int Database::CopyLog() {
  return sqlite3_wal_checkpoint_v2(db_, nullptr, SQLITE_CHECKPOINT_FULL, nullptr, nullptr);
}

void Database::KeepLogAtClose() {
  sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

const volatile void* Database::LogIndex() {
  constexpr int kRegionBytes = 32768;  // As SQLite maps it.
  sqlite3_file* file = nullptr;
  if (sqlite3_file_control(db_, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK ||
      file == nullptr || file->pMethods == nullptr || file->pMethods->iVersion < 2) {
    return nullptr;
  }
  volatile void* index = nullptr;
  file->pMethods->xShmMap(file, 0, kRegionBytes, /*bExtend=*/0, &index);
  return index;
}

}  // namespace memoryd::sqlite
