#include "core/storage/postgres/call_timer.h"

#include <sys/socket.h>

#include <chrono>

#include "core/base/mutex.h"
#include "core/storage/postgres/connection_settings.h"

namespace memoryd {

CallTimer::CallTimer() : thread_([this] { Run(); }) {}

CallTimer::~CallTimer() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  stopped_.NotifyAll();
  thread_.join();
}

void CallTimer::Run() {
  constexpr std::chrono::milliseconds kInterval(100);
  const MutexLock lock(mutex_);
  while (!stop_) {
    stopped_.WaitUntil(mutex_, std::chrono::steady_clock::now() + kInterval);
    const Deadline now = std::chrono::steady_clock::now();
    for (const Watch* watch : watches_) {
      // Again at every round: harmless, and no flag to keep.
      if (watch->deadline_ <= now) ::shutdown(watch->socket_, SHUT_RDWR);
    }
  }
}

CallTimer::Watch::Watch(CallTimer& timer, int socket, Deadline deadline)
    : timer_(timer), socket_(socket), deadline_(deadline) {
  const MutexLock lock(timer_.mutex_);
  timer_.watches_.insert(this);
}

CallTimer::Watch::~Watch() {
  const MutexLock lock(timer_.mutex_);
  timer_.watches_.erase(this);
}

}  // namespace memoryd
