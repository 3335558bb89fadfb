// Connections shared out one thread at a time.
#ifndef MEMORYD_CORE_STORAGE_SQLITE_DATABASE_POOL_H_
#define MEMORYD_CORE_STORAGE_SQLITE_DATABASE_POOL_H_

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/storage/sqlite/database.h"

namespace memoryd::sqlite {

// Any thread may take a connection; it comes back when the lease ends. Outlives its leases.
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

  DatabasePool(std::vector<std::unique_ptr<Database>> databases, std::chrono::milliseconds timeout)
      : timeout_(timeout), free_(std::move(databases)) {}

  // Waits for a connection; UNAVAILABLE when the timeout passes first.
  absl::StatusOr<Lease> Take() MEMORYD_EXCLUDES(mutex_);

 private:
  void GiveBack(std::unique_ptr<Database> db) MEMORYD_EXCLUDES(mutex_);

  const std::chrono::milliseconds timeout_;
  Mutex mutex_;
  CondVar came_back_;
  std::vector<std::unique_ptr<Database>> free_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd::sqlite

#endif  // MEMORYD_CORE_STORAGE_SQLITE_DATABASE_POOL_H_
