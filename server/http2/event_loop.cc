#include "server/http2/event_loop.h"

#include <boost/asio/post.hpp>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/histogram.h"
#include "core/base/mutex.h"

namespace memoryd {
namespace {

constexpr std::chrono::seconds kTick(1);

}  // namespace

EventLoop::EventLoop(Task on_tick, Task after, Counter* exceptions)
    : on_tick_(std::move(on_tick)), after_(std::move(after)), exceptions_(*exceptions) {}

EventLoop::~EventLoop() { Stop(); }

void EventLoop::Start() {
  WaitForTick();
  thread_ = std::thread([this] {
    id_.store(std::this_thread::get_id());
    Run();
  });
}

void EventLoop::Run() {
  for (;;) {
    try {
      if (!ticking_ && !ending_) WaitForTick();
      context_.run();
      return;
    } catch (...) {
      Increment(exceptions_);
    }
  }
}

void EventLoop::Stop() {
  if (!thread_.joinable()) return;
  // Without the timer the loop ends when nothing of its connections waits any more, so that what
  // their waits refer to is released.
  Post([this] {
    ending_ = true;
    timer_.cancel();
  });
  thread_.join();
  std::vector<Task> dropped;
  MutexLock lock(mutex_);
  stopped_ = true;
  tasks_.swap(dropped);
}

void EventLoop::Post(Task task) {
  bool idle = false;
  {
    MutexLock lock(mutex_);
    if (stopped_) return;
    idle = tasks_.empty();
    tasks_.push_back(std::move(task));
  }
  // Else it has been woken already, and not yet looked.
  if (!idle) return;
  try {
    boost::asio::post(context_, [this] { RunTasks(); });
  } catch (...) {
    // There is no memory to wake the loop with. The task is queued, and runs with the next tick.
    Increment(exceptions_);
  }
}

void EventLoop::Guarded(Task& task) {
  try {
    task();
  } catch (...) {
    Increment(exceptions_);
  }
}

void EventLoop::RunTasks() {
  {
    MutexLock lock(mutex_);
    running_.swap(tasks_);
  }
  for (Task& task : running_) Guarded(task);
  running_.clear();
  Guarded(after_);
}

void EventLoop::WaitForTick() {
  timer_.expires_after(kTick);
  timer_.async_wait([this](const boost::system::error_code& error) {
    ticking_ = false;
    if (error || ending_) return;
    Guarded(on_tick_);
    RunTasks();
    if (!ending_) WaitForTick();
  });
  ticking_ = true;
}

}  // namespace memoryd
