#include "server/ops/calls_in_flight.h"

#include <chrono>

#include "core/base/mutex.h"

namespace memoryd {

bool CallsInFlight::Enter() {
  // Counted before the look at the flag, so that Drain() can't miss a call that saw it unset.
  count_.fetch_add(1);
  if (!draining_.load()) return true;
  Leave();
  return false;
}

void CallsInFlight::Leave() {
  if (count_.fetch_sub(1) == 1 && draining_.load()) {
    MutexLock lock(mutex_);
    idle_.NotifyAll();
  }
}

bool CallsInFlight::Drain(std::chrono::steady_clock::time_point deadline) {
  draining_.store(true);
  MutexLock lock(mutex_);
  while (count_.load() > 0 && std::chrono::steady_clock::now() < deadline) {
    idle_.WaitUntil(mutex_, deadline);
  }
  return count_.load() == 0;
}

}  // namespace memoryd
