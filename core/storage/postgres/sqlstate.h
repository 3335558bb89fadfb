// What PostgreSQL's error codes mean to a caller of the store.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_SQLSTATE_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_SQLSTATE_H_

#include <string_view>

#include "absl/status/status.h"
#include "core/base/error.h"

namespace memoryd {

// The division by zero with which the batch statement reports a lost session, see
// batch_statement.h.
inline constexpr std::string_view kSqlStateSessionLost = "22012";
// Of a connection that failed without an answer of the server's.
inline constexpr std::string_view kSqlStateConnectionLost = "08006";
inline constexpr std::string_view kSqlStateUniqueViolation = "23505";
inline constexpr std::string_view kSqlStateReadOnly = "25006";
inline constexpr std::string_view kSqlStateLockTimeout = "55P03";
// A prepared statement of that name is not there, or is there already.
inline constexpr std::string_view kSqlStateNoSuchStatement = "26000";
inline constexpr std::string_view kSqlStateStatementExists = "42P05";
// Among others: a prepared statement's columns have got other types, by a migration.
inline constexpr std::string_view kSqlStateNotSupported = "0A000";

// The status for an error code; an empty one stands for a connection that failed. The message is
// a fixed sentence: the server's own text, `said`, holds SQL, host names and rows. See
// WithServersCause().
absl::Status StatusForSqlState(std::string_view sqlstate, std::string_view said = {});

// `status` with a cause for the log: the error code, and the first line of what the server, or
// libpq where there is no code, `said` if errors of that class are about the store and not about
// values that are written.
absl::Status WithServersCause(absl::Status status, std::string_view sqlstate,
                              std::string_view said);

// Nothing was done, and the same statement may well succeed: deadlock, serialization, lock or
// statement timeout.
bool IsWorthRetrying(std::string_view sqlstate);

// Of those, all but the statement timeout: others held locks, or wrote what the statement read.
bool IsLostToOthers(std::string_view sqlstate);

// It is the values of some change that can't be written: the others of its batch may well be.
bool IsOfOneChange(std::string_view sqlstate);

// The server is going away or no longer the primary: other connections to it are useless too.
bool SpoilsAllConnections(std::string_view sqlstate);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_SQLSTATE_H_
