#include "core/storage/postgres/exclusive_lock.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/error_cause.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/storage/postgres/connection_settings.h"
#include "core/storage/postgres/query_connection.h"
#include "core/storage/postgres/sqlstate.h"

namespace memoryd {
namespace {

// Waits as long as the connection's lock_timeout: the lock of a server that was killed is freed
// when PostgreSQL notices, a moment later.
constexpr Query kTakeLock{"exclusive_lock", "SELECT pg_advisory_lock(7882826979490329602)"};
constexpr Query kTakesWrites{"takes_writes",
                             "SELECT NOT (pg_is_in_recovery() "
                             "OR current_setting('default_transaction_read_only')::boolean)"};

absl::Status CheckTakesWrites(QueryConnection& connection, Deadline deadline) {
  MEMORYD_ASSIGN_OR_RETURN(const bool takes_writes, TakesWrites(connection, deadline));
  return takes_writes ? absl::OkStatus() : StatusForSqlState(kSqlStateReadOnly);
}

}  // namespace

absl::StatusOr<bool> TakesWrites(QueryConnection& connection, Deadline deadline) {
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult result, connection.Run(kTakesWrites, {}, deadline));
  return result.Text(0, 0) == "t";
}

absl::Status ExclusiveLock::Take(Deadline deadline) {
  MEMORYD_ASSIGN_OR_RETURN(std::unique_ptr<QueryConnection> connection,
                           QueryConnection::Connect(settings_, timer_));
  const absl::Status status = connection->Run(kTakeLock, {}, deadline).status();
  if (connection->sqlstate() == kSqlStateLockTimeout) {
    return absl::FailedPreconditionError("another memoryd holds the store exclusively");
  }
  MEMORYD_RETURN_IF_ERROR(status);
  connection_ = std::move(connection);
  return absl::OkStatus();
}

absl::Status ExclusiveLock::Hold(Deadline deadline) {
  const MutexLock lock(mutex_);
  if (connection_ == nullptr) {
    MEMORYD_RETURN_IF_ERROR(Take(deadline));
    return CheckTakesWrites(*connection_, deadline);
  }
  absl::Status status = CheckTakesWrites(*connection_, deadline);
  if (connection_->usable()) return status;
  connection_ = nullptr;
  const ErrorCause cause = CauseOf(status);
  return WithCause(StoreUnavailable(), cause.code, cause.text);
}

}  // namespace memoryd
