// A connection for everything but batches, through libpqxx.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_QUERY_CONNECTION_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_QUERY_CONNECTION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <pqxx/pqxx>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/storage/postgres/call_timer.h"
#include "core/storage/postgres/connection_settings.h"
#include "core/storage/postgres/statement_names.h"

namespace memoryd {

// The rows of one query. A column's type is known to whoever wrote the query: reading it as another
// one gives 0 or nothing.
class QueryResult {
 public:
  explicit QueryResult(const pqxx::result& result) : result_(result) {}

  int size() const { return static_cast<int>(result_.size()); }
  // Rows that an UPDATE or DELETE touched.
  std::int64_t affected() const { return static_cast<std::int64_t>(result_.affected_rows()); }
  bool IsNull(int row, int column) const;
  // 0 for NULL.
  std::int64_t Int(int row, int column) const;
  // Empty for NULL; valid as long as the result.
  std::string_view Text(int row, int column) const;
  // Of a bytea; empty for NULL.
  std::string Bytes(int row, int column) const;

 private:
  pqxx::result result_;
};

// A statement of the program. `name` is unique in the program.
struct Query {
  const char* name;
  const char* sql;
};

// An array parameter of type text[] or bigint[].
std::string ArrayParameter(std::span<const std::string> values);

// A parameter of type bytea.
std::string BytesParameter(std::string_view bytes);

// No exception leaves this class. One thread at a time. After an error for which usable() is false
// the connection must be dropped; it never reconnects.
class QueryConnection {
 public:
  // `timer` must outlive the connection. UNAVAILABLE when there is no server.
  static absl::StatusOr<std::unique_ptr<QueryConnection>> Connect(
      const ConnectionSettings& settings, CallTimer& timer);

  ~QueryConnection();
  QueryConnection(const QueryConnection&) = delete;
  QueryConnection& operator=(const QueryConnection&) = delete;

  // Runs one statement as a transaction of its own. Parameters are text without NUL.
  absl::StatusOr<QueryResult> Run(const Query& query, std::span<const std::string> parameters,
                                  Deadline deadline);

  // The parts of a transaction; nothing else may run between Begin and Commit. Without Commit
  // everything is rolled back when the connection is dropped or by Rollback.
  absl::Status Begin(Deadline deadline);
  absl::Status Commit(Deadline deadline);
  void Rollback(Deadline deadline);
  absl::StatusOr<QueryResult> RunText(const std::string& sql, Deadline deadline);

  // False once the connection is lost, closed by the server while idle, or not to be used again.
  bool usable() const;
  // Of the last error; empty when the server gave none.
  const std::string& sqlstate() const { return sqlstate_; }
  // True when the last error means that other connections to this server are useless as well.
  bool spoilt() const { return spoilt_; }

 private:
  QueryConnection(const ConnectionSettings& settings, CallTimer& timer);

  // Afterwards `prepared_` has the query, unless it may be tried again.
  absl::Status Prepare(const Query& query, Deadline deadline);
  template <typename Call>
  absl::StatusOr<QueryResult> Guarded(Deadline deadline, const Call& call);
  absl::Status Failed(std::string_view sqlstate, std::string_view said);

  CallTimer& timer_;
  const std::shared_ptr<StatementNames> names_;
  pqxx::connection connection_;
  // Another descriptor of the connection's socket, for the timer: libpq may close its own in the
  // middle of a call, and the number may be somebody else's at once.
  int socket_ = -1;
  // By Query::name: the name of the statement, empty if it is not to have one.
  std::map<std::string_view, std::string> prepared_;
  std::string sqlstate_;
  bool broken_ = false;
  bool spoilt_ = false;
  bool worn_ = false;  // A name of it can't be had any more, and can be on another connection.
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_QUERY_CONNECTION_H_
