// Why the store failed, for the log: callers are told only that it did.
#ifndef MEMORYD_SERVER_OPS_STORE_ERROR_LOG_H_
#define MEMORYD_SERVER_OPS_STORE_ERROR_LOG_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "core/storage/observed_store.h"
#include "server/ops/log.h"

namespace memoryd {

// A line for the first error of an operation, and then at most one in ten seconds, with the
// number of errors since the last: a store that is away fails every call. The messages of stores
// and their causes hold nothing of a tenant's. Any thread.
class StoreErrorLog {
 public:
  explicit StoreErrorLog(Log* log) : log_(*log) {}

  void Note(StoreOperation operation, const absl::Status& error) {
    Note(operation, error, std::chrono::steady_clock::now());
  }
  void Note(StoreOperation operation, const absl::Status& error,
            std::chrono::steady_clock::time_point now) MEMORYD_EXCLUDES(mutex_);

 private:
  struct Told {
    std::optional<std::chrono::steady_clock::time_point> at;
    std::uint64_t errors = 0;  // Since then.
  };

  Log& log_;
  Mutex mutex_;
  std::array<Told, kStoreOperations.size()> told_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_OPS_STORE_ERROR_LOG_H_
