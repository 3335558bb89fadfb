#include "core/calls/executor.h"

#include <sys/resource.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>

#include "core/base/histogram.h"
#include "core/base/mutex.h"
#include "core/calls/call_thread.h"
#include "core/calls/tenant_queue.h"
#include "core/calls/wake_scope.h"

namespace memoryd {

namespace {

// Linux has it for each thread. Nine times less of a processor that others want.
constexpr int kNice = 10;

}  // namespace

Executor::Executor(int threads, std::size_t max_queued, Counter* exceptions, Clock now,
                   Priority priority)
    : max_queued_(max_queued),
      exceptions_(exceptions),
      now_(std::move(now)),
      idle_(static_cast<std::size_t>(threads)) {
  threads_.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this, priority] {
      // Where it is not allowed, the threads run as others do.
      if (priority == Priority::kBelow) ::setpriority(PRIO_PROCESS, 0, kNice);
      RunTasks();
    });
  }
}

Executor::~Executor() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
  MutexLock lock(mutex_);
  while (idle_ < threads_.size()) wake_.Wait(mutex_);
}

bool Executor::HasRoom(std::string_view tenant) const {
  if (queue_.size() < max_queued_) return true;
  if (queue_.size() >= max_queued_ + max_queued_ / 4) return false;
  const std::size_t own = queue_.SizeOf(tenant);
  const std::size_t tenants = queue_.WaitingTenants() + (own == 0 ? 1 : 0);
  return own < max_queued_ / tenants;
}

bool Executor::TrySubmit(std::string_view tenant, Task task) {
  {
    MutexLock lock(mutex_);
    if (!HasRoom(tenant)) return false;
    queue_.Push(tenant, std::move(task));
  }
  Wake();
  return true;
}

void Executor::Submit(std::string_view tenant, Task task) {
  {
    MutexLock lock(mutex_);
    queue_.Push(tenant, std::move(task));
  }
  Wake();
}

void Executor::Wake() {
  if (CallThread::IsThis()) {
    {
      MutexLock lock(mutex_);
      if (idle_ == 0) return;
      --idle_;
    }
    try {
      CallThread::Task one = [this] { RunOne(); };
      if (CallThread::Offer(one)) return;
    } catch (...) {
      // There is no memory to ask with; the threads of the pool need none.
    }
    MutexLock lock(mutex_);
    ++idle_;
  }
  wake_.NotifyOne();
}

void Executor::RunTasks() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (queue_.empty() ? !stopping_ : idle_ == 0) wake_.Wait(mutex_);
      if (queue_.empty()) return;
      --idle_;
    }
    RunOne();
  }
}

void Executor::RunOne() {
  TenantQueue<Task>::Turn turn = nullptr;
  Task task;
  {
    MutexLock lock(mutex_);
    if (!queue_.empty()) std::tie(turn, task) = queue_.Take();
  }
  std::int64_t cost = 0;
  if (turn != nullptr) {
    const WakeScope replies;
    const auto begin = now_();
    try {
      std::exchange(task, nullptr)();
    } catch (...) {
      Increment(*exceptions_);
    }
    cost = std::chrono::nanoseconds(now_() - begin).count();
  }
  MutexLock lock(mutex_);
  if (turn != nullptr) queue_.EndTurn(turn, cost);
  ++idle_;
  // With the lock: the destructor waits for the threads of calls.
  if (stopping_) {
    wake_.NotifyAll();
  } else if (!queue_.empty()) {
    wake_.NotifyOne();
  }
}

}  // namespace memoryd
