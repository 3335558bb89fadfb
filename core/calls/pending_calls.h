// Ends calls that a stalled store would keep past their deadline.
#ifndef MEMORYD_CORE_CALLS_PENDING_CALLS_H_
#define MEMORYD_CORE_CALLS_PENDING_CALLS_H_

#include <array>
#include <chrono>
#include <memory>
#include <thread>
#include <unordered_map>

#include "core/base/mutex.h"

namespace memoryd {

class PendingCall {
 public:
  explicit PendingCall(std::chrono::steady_clock::time_point deadline);
  virtual ~PendingCall() = default;

  // Finishes the call if nobody has yet. Any thread.
  virtual void Expire() = 0;

  std::chrono::steady_clock::time_point deadline() const { return deadline_; }
  // A little before the deadline, so that the reply still arrives in time; later in the life of a
  // call that has little time in all.
  std::chrono::steady_clock::time_point expires_at() const { return expires_at_; }

 private:
  const std::chrono::steady_clock::time_point deadline_;
  const std::chrono::steady_clock::time_point expires_at_;
};

// The calls that wait for the store. A thread looks at them a few times a second and expires those
// that are about to pass their deadline, so that a caller hears UNAVAILABLE rather than
// his own timeout, whatever the store's client library is blocked on.
class PendingCalls {
 public:
  PendingCalls();
  ~PendingCalls();
  PendingCalls(const PendingCalls&) = delete;
  PendingCalls& operator=(const PendingCalls&) = delete;

  // Any thread. A call is watched until Remove().
  void Add(const std::shared_ptr<PendingCall>& call);
  void Remove(const PendingCall* call);

  // Expires every call now.
  void ExpireAll();

 private:
  struct Shard {
    Mutex mutex;
    std::unordered_map<const PendingCall*, std::shared_ptr<PendingCall>> calls
        MEMORYD_GUARDED_BY(mutex);
  };

  Shard& ShardOf(const PendingCall* call);
  // Expires the calls that are due at `time`.
  void ExpireUntil(std::chrono::steady_clock::time_point time);
  void Watch();

  std::array<Shard, 16> shards_;
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ MEMORYD_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_CALLS_PENDING_CALLS_H_
