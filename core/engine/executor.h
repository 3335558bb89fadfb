// A bounded pool of threads for what waits: cold loads, pages, look-ups.
#ifndef MEMORYD_CORE_ENGINE_EXECUTOR_H_
#define MEMORYD_CORE_ENGINE_EXECUTOR_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "core/base/histogram.h"
#include "core/base/mutex.h"

namespace memoryd {

class Executor {
 public:
  using Task = std::function<void()>;

  // `exceptions`, which must outlive it, counts tasks that threw. What waits for such a task must
  // not wait for ever: tasks catch what they can tell somebody.
  Executor(int threads, std::size_t max_queued, Counter* exceptions);
  // Runs what is queued, then joins.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // False, and `task` is dropped, when the queue is full. Any thread.
  [[nodiscard]] bool TrySubmit(Task task) MEMORYD_EXCLUDES(mutex_);

  // For work that was admitted before and whose number is bounded by that: never refuses.
  void Submit(Task task) MEMORYD_EXCLUDES(mutex_);

 private:
  void Run() MEMORYD_EXCLUDES(mutex_);

  const std::size_t max_queued_;
  Counter* const exceptions_;
  Mutex mutex_;
  CondVar wake_;
  std::deque<Task> queue_ MEMORYD_GUARDED_BY(mutex_);
  bool stopping_ MEMORYD_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_ENGINE_EXECUTOR_H_
