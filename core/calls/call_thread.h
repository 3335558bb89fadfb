// Work that waits for the store, on the thread of the call that made it due.
#ifndef MEMORYD_CORE_CALLS_CALL_THREAD_H_
#define MEMORYD_CORE_CALLS_CALL_THREAD_H_

#include <utility>

#include "absl/functional/any_invocable.h"

namespace memoryd {

// A thread that takes calls. While it alone takes them it must not wait. When another thread stands
// by to take them, it may do what waits itself, and a lone call passes through no other thread.
class CallThread {
 public:
  using Task = absl::AnyInvocable<void()>;

  // Has this thread run `task`, which may wait, when it has handled the event that it is at. False,
  // and `task` is untouched, where this thread takes no calls, nobody stands by, or another task
  // has been accepted during this event.
  static bool Offer(Task& task) { return current_ != nullptr && current_->Accept(task); }
  // Whether this thread takes calls: others accept nothing.
  static bool IsThis() { return current_ != nullptr; }

 protected:
  CallThread() = default;
  ~CallThread() = default;
  CallThread(const CallThread&) = delete;
  CallThread& operator=(const CallThread&) = delete;

  virtual bool Accept(Task& task) = 0;

  // While one of these lives, this thread takes calls for `thread`; for none where that is null.
  class Scope {
   public:
    explicit Scope(CallThread* thread) : outer_(std::exchange(current_, thread)) {}
    ~Scope() { current_ = outer_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    CallThread* const outer_;
  };

 private:
  inline static thread_local CallThread* current_ = nullptr;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_CALLS_CALL_THREAD_H_
