#include "server/http2/event_loop.h"

#include <boost/asio/post.hpp>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/base/histogram.h"
#include "core/base/mutex.h"
#include "core/calls/call_thread.h"
#include "core/calls/wake_scope.h"

namespace memoryd {
namespace {

constexpr std::chrono::seconds kTick(1);

}  // namespace

EventLoop::EventLoop(Task on_tick, Task after, Counter* exceptions)
    : on_tick_(std::move(on_tick)), after_(std::move(after)), exceptions_(*exceptions) {}

EventLoop::~EventLoop() { Stop(); }

void EventLoop::Start() {
  WaitForTick();
  for (std::thread& thread : threads_) thread = std::thread([this] { Serve(); });
}

// ---- who polls ----

void EventLoop::Serve() {
  while (TakePolling()) {
    Task own = Poll();
    LeavePolling(/*at_end=*/own == nullptr);
    if (own != nullptr) Guarded(own);
  }
}

bool EventLoop::TakePolling() {
  MutexLock lock(roles_);
  ++standing_by_;
  while (polled_ && !ended_) polling_is_free_.Wait(roles_);
  --standing_by_;
  polled_ = true;
  return !ended_;
}

void EventLoop::LeavePolling(bool at_end) {
  {
    MutexLock lock(roles_);
    polled_ = false;
    ended_ = at_end;
  }
  polling_is_free_.NotifyOne();
}

EventLoop::Task EventLoop::Poll() {
  for (;;) {
    try {
      while (context_.run_one() > 0) {
        if (own_ != nullptr) return std::exchange(own_, nullptr);
      }
      return nullptr;
    } catch (...) {
      Increment(exceptions_);
      Handle([this] {
        if (!ticking_ && !ending_) WaitForTick();
      });
    }
  }
}

bool EventLoop::Accept(CallThread::Task& task) {
  if (own_ != nullptr) return false;
  {
    MutexLock lock(roles_);
    if (standing_by_ == 0) return false;
  }
  own_ = std::move(task);
  return true;
}

void EventLoop::Stop() {
  if (!threads_[0].joinable()) return;
  // Without the timer the loop ends when nothing of its connections waits any more, so that what
  // their waits refer to is released.
  Post([this] {
    ending_ = true;
    timer_.cancel();
  });
  for (std::thread& thread : threads_) thread.join();
  std::vector<Task> dropped;
  MutexLock lock(mutex_);
  stopped_ = true;
  tasks_.swap(dropped);
}

// ---- whose turn it is ----

void EventLoop::Handle(absl::FunctionRef<void()> event) {
  {
    const CallThread::Scope scope(this);
    MutexLock lock(turn_);
    with_turn_ = this;
    Guarded(event);
    EndTurn();
    with_turn_ = nullptr;
  }
  WakeUp();
}

void EventLoop::Visit() {
  // The thread that has the turn looks for tasks when its turn ends.
  if (!turn_.TryLock()) return;
  {
    const CallThread::Scope scope(nullptr);
    with_turn_ = this;
    EndTurn();
    with_turn_ = nullptr;
  }
  turn_.Unlock();
  WakeUp();
}

void EventLoop::EndTurn() {
  {
    MutexLock lock(mutex_);
    running_.swap(tasks_);
  }
  for (Task& task : running_) Guarded(task);
  running_.clear();
  Guarded(after_);
}

void EventLoop::Post(Task task) {
  {
    MutexLock lock(mutex_);
    if (stopped_) return;
    tasks_.push_back(std::move(task));
  }
  // The thread that has the turn looks for tasks when its turn ends.
  if (HasTurn()) return;
  try {
    if (WakeScope::IsOpen()) {
      WakeScope::Add(shared_from_this());
      return;
    }
  } catch (...) {
    // There is no memory to remember it with, so now.
    Increment(exceptions_);
  }
  WakeUp();
}

void EventLoop::WakeUp() {
  {
    MutexLock lock(mutex_);
    if (tasks_.empty() || woken_) return;
    woken_ = true;
  }
  try {
    boost::asio::post(context_, [this] {
      {
        MutexLock lock(mutex_);
        woken_ = false;
      }
      Handle([] {});
    });
  } catch (...) {
    // There is no memory to wake the loop with. The tasks are queued, and run with the next tick.
    Increment(exceptions_);
    MutexLock lock(mutex_);
    woken_ = false;
  }
}

void EventLoop::WaitForTick() {
  timer_.expires_after(kTick);
  timer_.async_wait([this](const boost::system::error_code& error) {
    Handle([this, &error] {
      ticking_ = false;
      if (error || ending_) return;
      Guarded(on_tick_);
      WaitForTick();
    });
  });
  ticking_ = true;
}

}  // namespace memoryd
