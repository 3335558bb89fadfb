// A bounded pool of connections that opens them when needed and fails fast when it can't.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_CONNECTION_POOL_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_CONNECTION_POOL_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"
#include "core/storage/postgres/connection_settings.h"

namespace memoryd {

// `Connection` has usable(). Thread-safe.
template <typename Connection>
class ConnectionPool {
 public:
  using Connect = std::function<absl::StatusOr<std::unique_ptr<Connection>>()>;

  // Exclusive use of a connection; gives it back, or drops it when it is no longer usable.
  class Lease {
   public:
    Lease(ConnectionPool& pool, std::unique_ptr<Connection> connection, std::int64_t epoch)
        : pool_(&pool), connection_(std::move(connection)), epoch_(epoch) {}
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (connection_ != nullptr) pool_->Return(std::move(connection_), epoch_);
    }
    Connection* operator->() const { return connection_.get(); }

   private:
    ConnectionPool* pool_;
    std::unique_ptr<Connection> connection_;
    std::int64_t epoch_;
  };

  ConnectionPool(int size, Connect connect) : size_(size), connect_(std::move(connect)) {}

  // An idle connection or a new one; waits while all are in use. After a failure to connect, calls
  // fail at once for a while (50 ms, doubling to 1 s) with the same status; with `patient` they
  // wait and try again until `deadline`. From `deadline` on there is no connection to be had.
  absl::StatusOr<Lease> Acquire(Deadline deadline, bool patient = false) MEMORYD_EXCLUDES(mutex_) {
    for (;;) {
      absl::StatusOr<Taken> taken = Take(deadline, patient);
      if (!taken.ok()) return taken.status();
      if (taken->connection != nullptr) {
        if (taken->connection->usable()) {
          return Lease(*this, std::move(taken->connection), taken->epoch);
        }
        Drop(std::move(taken->connection));
        continue;
      }
      absl::StatusOr<std::unique_ptr<Connection>> made = connect_();
      const MutexLock lock(mutex_);
      if (made.ok()) {
        backoff_ = kFirstBackoff;
        return Lease(*this, *std::move(made), taken->epoch);
      }
      --open_;
      last_error_ = DetachedCopy(made.status());
      retry_at_ = Clock::now() + backoff_;
      backoff_ = std::min(2 * backoff_, kLastBackoff);
      changed_.NotifyAll();
      if (!patient) return DetachedCopy(last_error_);
    }
  }

  // Opens connections until there are `count` idle ones, so that their first users need not. The
  // status of the first that can't be opened.
  absl::Status Open(int count, std::chrono::milliseconds timeout) MEMORYD_EXCLUDES(mutex_) {
    std::vector<Lease> leases;
    for (int i = 0; i < count; ++i) {
      absl::StatusOr<Lease> lease = Acquire(Clock::now() + timeout);
      if (!lease.ok()) return lease.status();
      leases.push_back(*std::move(lease));
    }
    return absl::OkStatus();
  }

  // Connections opened before now will not be used again: their server is no longer the one that
  // takes writes.
  void DropAll() MEMORYD_EXCLUDES(mutex_) {
    std::vector<std::unique_ptr<Connection>> dropped;
    {
      const MutexLock lock(mutex_);
      ++epoch_;
      dropped.swap(idle_);
      open_ -= static_cast<int>(dropped.size());
    }
    changed_.NotifyAll();
  }

 private:
  struct Taken {
    std::unique_ptr<Connection> connection;  // None: there is room for a new one, which is counted.
    std::int64_t epoch = 0;
  };

  // Waits until one of both is there.
  absl::StatusOr<Taken> Take(Deadline deadline, bool patient) MEMORYD_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    for (;;) {
      const Deadline now = Clock::now();
      const bool backing_off = now < retry_at_;
      if (now >= deadline) {
        return backing_off ? DetachedCopy(last_error_)
                           : absl::UnavailableError("no connection to the store was free");
      }
      if (!idle_.empty()) {
        Taken taken{std::move(idle_.back()), epoch_};
        idle_.pop_back();
        return taken;
      }
      if (open_ < size_ && !backing_off) {
        ++open_;
        return Taken{nullptr, epoch_};
      }
      if (backing_off && !patient) return DetachedCopy(last_error_);
      changed_.WaitUntil(mutex_, backing_off ? std::min(deadline, retry_at_) : deadline);
    }
  }

  // A copy that shares no memory with `status`. Copies of a Status share a counted body, and the
  // count is lowered inside the library, where ThreadSanitizer does not see the order.
  static absl::Status DetachedCopy(const absl::Status& status) {
    absl::Status copy(status.code(), std::string(status.message()));
    status.ForEachPayload([&copy](absl::string_view url, const absl::Cord& payload) {
      copy.SetPayload(url, absl::Cord(std::string(payload)));
    });
    return copy;
  }

  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kFirstBackoff{50};
  static constexpr std::chrono::milliseconds kLastBackoff{1000};

  void Return(std::unique_ptr<Connection> connection, std::int64_t epoch) MEMORYD_EXCLUDES(mutex_) {
    if (!connection->usable()) return Drop(std::move(connection));
    {
      const MutexLock lock(mutex_);
      if (epoch == epoch_) {
        idle_.push_back(std::move(connection));
      } else {
        --open_;
      }
    }
    changed_.NotifyOne();
  }

  void Drop(std::unique_ptr<Connection> connection) MEMORYD_EXCLUDES(mutex_) {
    connection.reset();
    {
      const MutexLock lock(mutex_);
      --open_;
    }
    changed_.NotifyOne();
  }

  const int size_;
  const Connect connect_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::unique_ptr<Connection>> idle_ MEMORYD_GUARDED_BY(mutex_);
  int open_ MEMORYD_GUARDED_BY(mutex_) = 0;  // Idle, leased and being opened.
  std::int64_t epoch_ MEMORYD_GUARDED_BY(mutex_) = 0;
  Deadline retry_at_ MEMORYD_GUARDED_BY(mutex_);
  std::chrono::milliseconds backoff_ MEMORYD_GUARDED_BY(mutex_) = kFirstBackoff;
  absl::Status last_error_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_CONNECTION_POOL_H_
