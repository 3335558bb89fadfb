#include "core/calls/serial_worker.h"

#include <functional>
#include <utility>

#include "core/base/mutex.h"
#include "core/calls/call_thread.h"

namespace memoryd {

SerialWorker::SerialWorker(std::function<void()> work)
    : work_(std::move(work)), thread_([this] { Run(); }) {}

SerialWorker::~SerialWorker() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void SerialWorker::Wake() {
  {
    MutexLock lock(mutex_);
    due_ = true;
    if (taken_) return;
    taken_ = true;
  }
  try {
    CallThread::Task task = [this] { Work(); };
    if (CallThread::Offer(task)) return;
  } catch (...) {
    // There is no memory to say so with; the thread that is there needs none.
  }
  HandToOwnThread();
}

void SerialWorker::HandToOwnThread() {
  {
    MutexLock lock(mutex_);
    for_own_ = true;
  }
  changed_.NotifyAll();
}

void SerialWorker::Work() noexcept {
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (!due_) {
        taken_ = false;
        if (stopping_) changed_.NotifyAll();
        return;
      }
      due_ = false;
    }
    work_();
  }
}

void SerialWorker::Run() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (!for_own_ && (!stopping_ || taken_)) changed_.Wait(mutex_);
      if (!for_own_) return;
      for_own_ = false;
    }
    Work();
  }
}

}  // namespace memoryd
