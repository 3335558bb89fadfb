#include "core/engine/executor.h"

#include <utility>

namespace memoryd {

Executor::Executor(int threads, std::size_t max_queued, Counter* exceptions)
    : max_queued_(max_queued), exceptions_(exceptions) {
  threads_.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

Executor::~Executor() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

bool Executor::TrySubmit(Task task) {
  {
    MutexLock lock(mutex_);
    if (queue_.size() >= max_queued_) return false;
    queue_.push_back(std::move(task));
  }
  wake_.NotifyOne();
  return true;
}

void Executor::Submit(Task task) {
  {
    MutexLock lock(mutex_);
    queue_.push_back(std::move(task));
  }
  wake_.NotifyOne();
}

void Executor::Run() {
  for (;;) {
    Task task;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) wake_.Wait(mutex_);
      if (queue_.empty()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    try {
      task();
    } catch (...) {
      Increment(*exceptions_);
    }
  }
}

}  // namespace memoryd
