// A bounded pool of threads for what waits: cold loads, pages, look-ups.
#ifndef MEMORYD_CORE_CALLS_EXECUTOR_H_
#define MEMORYD_CORE_CALLS_EXECUTOR_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/histogram.h"
#include "core/base/mutex.h"
#include "core/calls/tenant_queue.h"

namespace memoryd {

// Tenants share the threads: the next task is one of the tenant whose tasks have run for the least
// time, so a tenant with long or many tasks waits for itself. The tasks of one tenant begin in the
// order given. While a thread of the pool idles, the thread of a call may run a task in its place
// (CallThread).
class Executor {
 public:
  using Task = std::function<void()>;
  // Runs a tenant's task some time.
  using Run = std::function<void(std::string_view tenant, Task task)>;
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  // How the pool's threads share a processor that other threads want too. kBelow: they give way,
  // for tasks that compute for long.
  enum class Priority { kAsOthers, kBelow };

  // `exceptions`, which must outlive it, counts tasks that threw. What waits for such a task must
  // not wait for ever: tasks catch what they can tell somebody.
  Executor(int threads, std::size_t max_queued, Counter* exceptions,
           Clock now = &std::chrono::steady_clock::now, Priority priority = Priority::kAsOthers);
  // Runs what is queued, then joins.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // False, and `task` is dropped, when the queue is full: `max_queued` tasks wait. A tenant with
  // less than its share of these, which all tenants that wait have alike, may add tasks until a
  // quarter more wait. Any thread.
  [[nodiscard]] bool TrySubmit(std::string_view tenant, Task task) MEMORYD_EXCLUDES(mutex_);

  // For work that was admitted before and whose number is bounded by that: never refuses.
  void Submit(std::string_view tenant, Task task) MEMORYD_EXCLUDES(mutex_);

 private:
  bool HasRoom(std::string_view tenant) const MEMORYD_REQUIRES(mutex_);
  // Sees to it that somebody runs a task that has been queued.
  void Wake() MEMORYD_EXCLUDES(mutex_);
  // A thread of the pool runs tasks until the executor ends.
  void RunTasks() MEMORYD_EXCLUDES(mutex_);
  // Runs the next task, if one waits still. The thread has been counted as busy, and no longer is.
  void RunOne() MEMORYD_EXCLUDES(mutex_);

  const std::size_t max_queued_;
  Counter* const exceptions_;
  const Clock now_;
  Mutex mutex_;
  CondVar wake_;
  TenantQueue<Task> queue_ MEMORYD_GUARDED_BY(mutex_);  // Its costs are nanoseconds.
  std::size_t idle_ MEMORYD_GUARDED_BY(mutex_);  // Threads of the pool in whose place nobody works.
  bool stopping_ MEMORYD_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_CALLS_EXECUTOR_H_
