#include "core/storage/postgres/query_connection.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/storage/postgres/call_timer.h"
#include "core/storage/postgres/connection_settings.h"
#include "core/storage/postgres/pqxx_compat.h"
#include "core/storage/postgres/sqlstate.h"
#include "core/storage/postgres/statement_names.h"

namespace memoryd {
namespace {

pqxx::field Field(const pqxx::result& result, int row, int column) {
  return result[static_cast<pqxx::result::size_type>(row)]
               [static_cast<pqxx::row::size_type>(column)];
}

}  // namespace

bool QueryResult::IsNull(int row, int column) const {
  return Field(result_, row, column).is_null();
}

std::int64_t QueryResult::Int(int row, int column) const {
  const std::string_view text = Text(row, column);
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string_view QueryResult::Text(int row, int column) const {
  const pqxx::field field = Field(result_, row, column);
  // The characters belong to the result, not to the field.
  return field.is_null() ? std::string_view() : std::string_view(field.c_str(), field.size());
}

std::string QueryResult::Bytes(int row, int column) const {
  const pqxx::field field = Field(result_, row, column);
  return field.is_null() ? std::string() : pqxx_compat::Bytes(field);
}

std::string ArrayParameter(std::span<const std::string> values) {
  std::string array = "{";
  for (const std::string& value : values) {
    if (array.size() > 1) array += ',';
    array += '"';
    for (const char c : value) {
      if (c == '"' || c == '\\') array += '\\';
      array += c;
    }
    array += '"';
  }
  array += '}';
  return array;
}

std::string BytesParameter(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "\\x";
  text.reserve(2 + 2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 0xF];
  }
  return text;
}

QueryConnection::QueryConnection(const ConnectionSettings& settings, CallTimer& timer)
    : timer_(timer), names_(settings.names), connection_(settings.ConnectionString()) {
  pqxx_compat::DisableReconnect(connection_);
  socket_ = ::fcntl(connection_.sock(), F_DUPFD_CLOEXEC, 0);
  if (socket_ < 0) throw std::system_error(errno, std::generic_category(), "fcntl");
}

QueryConnection::~QueryConnection() { ::close(socket_); }

absl::StatusOr<std::unique_ptr<QueryConnection>> QueryConnection::Connect(
    const ConnectionSettings& settings, CallTimer& timer) {
  try {
    return std::unique_ptr<QueryConnection>(new QueryConnection(settings, timer));
  } catch (const std::exception& error) {
    return StatusForSqlState("", error.what());
  }
}

absl::Status QueryConnection::Failed(std::string_view sqlstate, std::string_view said) {
  sqlstate_ = sqlstate;
  if (sqlstate.empty() || sqlstate.starts_with("08")) broken_ = true;
  if (SpoilsAllConnections(sqlstate)) broken_ = spoilt_ = true;
  return StatusForSqlState(sqlstate, said);
}

template <typename Call>
absl::StatusOr<QueryResult> QueryConnection::Guarded(Deadline deadline, const Call& call) {
  if (broken_) return StatusForSqlState("", "the connection was lost before");
  try {
    const CallTimer::Watch watch(timer_, socket_, deadline);
    pqxx::nontransaction transaction(connection_);
    return QueryResult(call(transaction));
  } catch (const pqxx::deadlock_detected& error) {
    return Failed("40P01", error.what());
  } catch (const pqxx::serialization_failure& error) {
    return Failed("40001", error.what());
  } catch (const pqxx::sql_error& error) {
    // A server that closes the connection may get its last words through as an error.
    if (!connection_.is_open()) broken_ = true;
    const std::string sqlstate = pqxx_compat::SqlState(error);
    // An error without a code may be one about values.
    return Failed(sqlstate, sqlstate.empty() && !broken_ ? "" : error.what());
  } catch (const pqxx::failure& error) {
    // What the timer cut off is not the server's doing.
    const bool late = std::chrono::steady_clock::now() >= deadline;
    return Failed("", late ? "no answer in time" : error.what());
  } catch (const std::exception&) {
    broken_ = true;
    return absl::InternalError("the store's client library failed");
  }
}

absl::StatusOr<QueryResult> QueryConnection::Run(const Query& query,
                                                 std::span<const std::string> parameters,
                                                 Deadline deadline) {
  for (const std::string& parameter : parameters) {
    if (parameter.find('\0') != std::string::npos) {
      return absl::InvalidArgumentError("a name holds a NUL");
    }
  }
  if (names_->used()) {
    if (!prepared_.contains(query.name)) {
      absl::Status prepared = Prepare(query, deadline);
      if (!prepared.ok() && (broken_ || !names_->GiveUpAfter(sqlstate_))) return prepared;
    }
    std::string& name = prepared_[query.name];
    if (!name.empty()) {
      absl::StatusOr<QueryResult> result =
          Guarded(deadline, [&](pqxx::transaction_base& transaction) {
            return pqxx_compat::ExecPrepared(transaction, name, parameters);
          });
      if (result.ok() || broken_) return result;
      if (sqlstate_ == kSqlStateNotSupported) {
        name.clear();
      } else if (!names_->GiveUpAfter(sqlstate_)) {
        return result;
      }
    }
  }
  names_->CountUnnamed();
  return Guarded(deadline, [&](pqxx::transaction_base& transaction) {
    return pqxx_compat::ExecParams(transaction, query.sql, parameters);
  });
}

absl::Status QueryConnection::Prepare(const Query& query, Deadline deadline) {
  std::string name = StatementName(query.sql);
  const absl::Status status = Guarded(deadline, [&](pqxx::transaction_base&) {
                                pqxx_compat::Prepare(connection_, name, query.sql);
                                return pqxx::result();
                              }).status();
  if (status.ok()) {
    prepared_[query.name] = std::move(name);
  } else if (names_->pooled()) {
    // PgBouncer ends a connection that prepares a name once more, even one that could not be.
    prepared_[query.name].clear();
    worn_ = worn_ || IsWorthRetrying(sqlstate_);
  }
  return status;
}

absl::StatusOr<QueryResult> QueryConnection::RunText(const std::string& sql, Deadline deadline) {
  return Guarded(deadline,
                 [&](pqxx::transaction_base& transaction) { return transaction.exec(sql); });
}

absl::Status QueryConnection::Begin(Deadline deadline) {
  return RunText("BEGIN", deadline).status();
}

absl::Status QueryConnection::Commit(Deadline deadline) {
  return RunText("COMMIT", deadline).status();
}

void QueryConnection::Rollback(Deadline deadline) {
  if (!RunText("ROLLBACK", deadline).ok()) broken_ = true;
}

bool QueryConnection::usable() const {
  if (broken_ || worn_) return false;
  // Nothing is expected while idle: bytes to read are the server's farewell, or the end.
  pollfd socket{connection_.sock(), POLLIN, 0};
  return socket.fd >= 0 && ::poll(&socket, 1, 0) == 0;
}

}  // namespace memoryd
