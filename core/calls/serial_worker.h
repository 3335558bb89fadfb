// Work that no two threads do at once, by whichever thread comes first.
#ifndef MEMORYD_CORE_CALLS_SERIAL_WORKER_H_
#define MEMORYD_CORE_CALLS_SERIAL_WORKER_H_

#include <functional>
#include <thread>

#include "core/base/mutex.h"

namespace memoryd {

// Runs `work` after each Wake(): on the thread of the call that woke it, where that may wait
// (CallThread), else on a thread of its own. What wakes it while it runs has it run once more.
class SerialWorker {
 public:
  // `work` does all that is due, and throws nothing.
  explicit SerialWorker(std::function<void()> work);
  // Does what is due, then joins.
  ~SerialWorker();
  SerialWorker(const SerialWorker&) = delete;
  SerialWorker& operator=(const SerialWorker&) = delete;

  // Any thread.
  void Wake() MEMORYD_EXCLUDES(mutex_);

 private:
  void Run() MEMORYD_EXCLUDES(mutex_);
  // Works until nothing is due.
  void Work() noexcept MEMORYD_EXCLUDES(mutex_);
  void HandToOwnThread() MEMORYD_EXCLUDES(mutex_);

  const std::function<void()> work_;
  Mutex mutex_;
  CondVar changed_;
  bool due_ MEMORYD_GUARDED_BY(mutex_) = false;
  bool taken_ MEMORYD_GUARDED_BY(mutex_) = false;    // Some thread works, or is about to.
  bool for_own_ MEMORYD_GUARDED_BY(mutex_) = false;  // `thread_` is about to.
  bool stopping_ MEMORYD_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_CALLS_SERIAL_WORKER_H_
