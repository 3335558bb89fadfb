// Counts the calls being served, so that a drain knows when they have ended.
#ifndef MEMORYD_SERVER_OPS_CALLS_IN_FLIGHT_H_
#define MEMORYD_SERVER_OPS_CALLS_IN_FLIGHT_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "core/base/mutex.h"

namespace memoryd {

class CallsInFlight {
 public:
  // False once draining: the call must be refused. Any thread.
  [[nodiscard]] bool Enter();
  // After every Enter() that was true.
  void Leave() MEMORYD_EXCLUDES(mutex_);

  // Whether new calls are refused; long ones should end. Any thread.
  bool draining() const { return draining_.load(std::memory_order_relaxed); }

  // Entered and not left. Any thread.
  std::int64_t count() const { return count_.load(std::memory_order_relaxed); }

  // Refuses new calls from now on, and waits until the others have left: true, or until `deadline`.
  bool Drain(std::chrono::steady_clock::time_point deadline) MEMORYD_EXCLUDES(mutex_);

 private:
  std::atomic<std::int64_t> count_{0};
  std::atomic<bool> draining_{false};
  Mutex mutex_;
  CondVar idle_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_OPS_CALLS_IN_FLIGHT_H_
