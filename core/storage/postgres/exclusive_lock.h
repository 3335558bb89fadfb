// Secures that one server alone serves the sessions of a database.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_EXCLUSIVE_LOCK_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_EXCLUSIVE_LOCK_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/storage/postgres/query_connection.h"

namespace memoryd {

// An advisory lock held by a direct connection of its own, with which it ends. Thread-safe.
class ExclusiveLock {
 public:
  // Both must outlive the lock.
  ExclusiveLock(const ConnectionSettings& settings, CallTimer& timer)
      : settings_(settings), timer_(timer) {}

  // OK when the lock is held and the server takes writes. A lock that was lost is told once, by
  // UNAVAILABLE, since others may have written meanwhile; the next call takes it again.
  // FAILED_PRECONDITION when another server has it.
  absl::Status Hold(Deadline deadline) MEMORYD_EXCLUDES(mutex_);

 private:
  absl::Status Take(Deadline deadline) MEMORYD_REQUIRES(mutex_);

  const ConnectionSettings& settings_;
  CallTimer& timer_;
  Mutex mutex_;
  // Holds the lock unless null.
  std::unique_ptr<QueryConnection> connection_ MEMORYD_GUARDED_BY(mutex_);
};

// Whether the server behind `connection` takes writes: a standby does not.
absl::StatusOr<bool> TakesWrites(QueryConnection& connection, Deadline deadline);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_EXCLUSIVE_LOCK_H_
