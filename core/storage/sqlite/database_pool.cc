#include "core/storage/sqlite/database_pool.h"

#include <utility>

namespace memoryd::sqlite {

absl::StatusOr<DatabasePool::Lease> DatabasePool::Take() {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  MutexLock lock(mutex_);
  while (free_.empty()) {
    if (!came_back_.WaitUntil(mutex_, deadline) && free_.empty() &&
        std::chrono::steady_clock::now() >= deadline) {
      return absl::UnavailableError("the store is busy");
    }
  }
  // The last one back is taken first: its page cache is warm.
  std::unique_ptr<Database> db = std::move(free_.back());
  free_.pop_back();
  return Lease(*this, std::move(db));
}

void DatabasePool::GiveBack(std::unique_ptr<Database> db) {
  {
    MutexLock lock(mutex_);
    free_.push_back(std::move(db));
  }
  came_back_.NotifyOne();
}

}  // namespace memoryd::sqlite
