// Connections shared out one thread at a time.
#ifndef MEMORYD_CORE_STORAGE_SQLITE_DATABASE_POOL_H_
#define MEMORYD_CORE_STORAGE_SQLITE_DATABASE_POOL_H_

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/storage/sqlite/database.h"

namespace memoryd::sqlite {

// Any thread may take a connection; it comes back when the lease ends. Outlives its leases.
//
// Who comes while a connection is free takes it, though others were woken for it: handing it over
// costs a change of threads, with the store idle. Only once somebody has waited for `patience` is
// it handed to him, so that who takes one connection after the other, as the sweep does,
// holds up nobody for long: on a disk, with 320,000 rows being swept, the longest Put takes 0.2 s
// rather than 0.5 to 0.8, and two to four times as many are done. Go's sync.Mutex goes about it in
// the same way.
class DatabasePool {
 public:
  class Lease {
   public:
    Lease(DatabasePool& pool, std::unique_ptr<Database> db) : pool_(&pool), db_(std::move(db)) {}
    ~Lease() {
      if (db_ != nullptr) pool_->GiveBack(std::move(db_));
    }
    Lease(Lease&&) = default;
    Lease& operator=(Lease&&) = delete;

    Database& operator*() const { return *db_; }
    Database* operator->() const { return db_.get(); }

   private:
    DatabasePool* pool_;
    std::unique_ptr<Database> db_;
  };

  static constexpr std::chrono::milliseconds kPatience{2};

  DatabasePool(std::vector<std::unique_ptr<Database>> databases, std::chrono::milliseconds timeout,
               std::chrono::milliseconds patience = kPatience)
      : timeout_(timeout), patience_(patience), free_(std::move(databases)) {}

  // Waits for a connection; UNAVAILABLE when the timeout passes first.
  absl::StatusOr<Lease> Take() MEMORYD_EXCLUDES(mutex_);

  // Threads that wait for a connection.
  std::size_t waiting() MEMORYD_EXCLUDES(mutex_);

 private:
  struct Waiter {
    std::chrono::steady_clock::time_point since;
    CondVar wake;
    std::unique_ptr<Database> handed;
  };

  void GiveBack(std::unique_ptr<Database> db) MEMORYD_EXCLUDES(mutex_);
  // Whether somebody has waited for longer than is right.
  bool IsOverdue() const MEMORYD_REQUIRES(mutex_);
  std::unique_ptr<Database> TakeFree() MEMORYD_REQUIRES(mutex_);

  const std::chrono::milliseconds timeout_;
  const std::chrono::milliseconds patience_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Database>> free_ MEMORYD_GUARDED_BY(mutex_);
  // The longest first; on their threads' stacks.
  std::deque<Waiter*> waiters_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd::sqlite

#endif  // MEMORYD_CORE_STORAGE_SQLITE_DATABASE_POOL_H_
