#include "core/storage/sqlite/database_pool.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/storage/sqlite/database.h"

namespace memoryd::sqlite {

bool DatabasePool::IsOverdue() const {
  return !waiters_.empty() &&
         std::chrono::steady_clock::now() - waiters_.front()->since >= patience_;
}

std::unique_ptr<Database> DatabasePool::TakeFree() {
  // The last one back is taken first: its page cache is warm.
  std::unique_ptr<Database> db = std::move(free_.back());
  free_.pop_back();
  return db;
}

absl::StatusOr<DatabasePool::Lease> DatabasePool::Take() {
  MutexLock lock(mutex_);
  if (!free_.empty() && !IsOverdue()) return Lease(*this, TakeFree());
  Waiter self;
  self.since = std::chrono::steady_clock::now();
  waiters_.push_back(&self);
  const auto deadline = self.since + timeout_;
  while (self.handed == nullptr) {
    const bool timed_out =
        !self.wake.WaitUntil(mutex_, deadline) && std::chrono::steady_clock::now() >= deadline;
    if (self.handed != nullptr) break;
    if (free_.empty() && !timed_out) continue;
    waiters_.erase(std::find(waiters_.begin(), waiters_.end(), &self));
    if (free_.empty()) return absl::UnavailableError("the store is busy");
    self.handed = TakeFree();
    // Who was woken in vain, or not at all, while this one was still the first.
    if (!free_.empty() && !waiters_.empty()) waiters_.front()->wake.NotifyOne();
  }
  return Lease(*this, std::move(self.handed));
}

std::size_t DatabasePool::waiting() {
  MutexLock lock(mutex_);
  return waiters_.size();
}

void DatabasePool::GiveBack(std::unique_ptr<Database> db) {
  MutexLock lock(mutex_);
  if (waiters_.empty()) {
    free_.push_back(std::move(db));
    return;
  }
  // Notified under the lock: as soon as it is let go, the waiter may be gone.
  Waiter& first = *waiters_.front();
  if (IsOverdue()) {
    first.handed = std::move(db);
    waiters_.pop_front();
  } else {
    free_.push_back(std::move(db));
  }
  first.wake.NotifyOne();
}

}  // namespace memoryd::sqlite
