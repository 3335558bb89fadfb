#include "core/calls/executor.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>

#include "core/base/histogram.h"
#include "core/base/mutex.h"
#include "core/calls/tenant_queue.h"

namespace memoryd {

Executor::Executor(int threads, std::size_t max_queued, Counter* exceptions, Clock now)
    : max_queued_(max_queued), exceptions_(exceptions), now_(std::move(now)) {
  threads_.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { RunTasks(); });
}

Executor::~Executor() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
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
  wake_.NotifyOne();
  return true;
}

void Executor::Submit(std::string_view tenant, Task task) {
  {
    MutexLock lock(mutex_);
    queue_.Push(tenant, std::move(task));
  }
  wake_.NotifyOne();
}

void Executor::RunTasks() {
  TenantQueue<Task>::Turn turn = nullptr;
  std::int64_t cost = 0;
  for (;;) {
    Task task;
    {
      MutexLock lock(mutex_);
      if (turn != nullptr) queue_.EndTurn(std::exchange(turn, nullptr), cost);
      while (queue_.empty() && !stopping_) wake_.Wait(mutex_);
      if (queue_.empty()) return;
      std::tie(turn, task) = queue_.Take();
    }
    const auto begin = now_();
    try {
      task();
    } catch (...) {
      Increment(*exceptions_);
    }
    cost = std::chrono::nanoseconds(now_() - begin).count();
  }
}

}  // namespace memoryd
