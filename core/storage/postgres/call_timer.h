// Ends calls that block in a library without a timeout of its own.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_CALL_TIMER_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_CALL_TIMER_H_

#include <set>
#include <thread>

#include "core/base/mutex.h"
#include "core/storage/postgres/connection_settings.h"

namespace memoryd {

// Shuts sockets down whose call is overdue: the blocked reader sees the connection end. Checks ten
// times a second, so that a call that is in time costs no wake-up. Thread-safe.
class CallTimer {
 public:
  CallTimer();
  ~CallTimer();  // No call may be watched any more.
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;

  // Watches one call, from construction to destruction. The socket must stay open meanwhile.
  class Watch {
   public:
    Watch(CallTimer& timer, int socket, Deadline deadline);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    friend class CallTimer;
    CallTimer& timer_;
    const int socket_;
    const Deadline deadline_;
  };

 private:
  void Run();

  Mutex mutex_;
  CondVar stopped_;
  bool stop_ MEMORYD_GUARDED_BY(mutex_) = false;
  std::set<const Watch*> watches_ MEMORYD_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_CALL_TIMER_H_
