// The threads that serve some of the connections, and wait for all of those at once.
#ifndef MEMORYD_SERVER_HTTP2_EVENT_LOOP_H_
#define MEMORYD_SERVER_HTTP2_EVENT_LOOP_H_

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "core/base/histogram.h"
#include "core/base/mutex.h"
#include "core/calls/call_thread.h"
#include "core/calls/wake_scope.h"

namespace memoryd {

// Two threads, of which one polls. When an event made something due that waits for the store, the
// other one polls while this one waits (CallThread). The loop's objects belong to the thread that
// has the *turn*: they are made, used and destroyed by one thread at a time. The thread that polls
// has the turn while it handles an event. Another thread takes it for the tasks that it has posted,
// when no thread has it (WakeScope). docs/adr/0069-a-call-on-one-thread.md
class EventLoop final : private CallThread,
                        public WakeScope::Sleeper,
                        public std::enable_shared_from_this<EventLoop> {
 public:
  using Task = absl::AnyInvocable<void()>;

  // `on_tick` runs once a second, `after` when an event or tasks have been handled. Both have the
  // turn. `exceptions`, which must outlive it, counts tasks and events that threw; the loop goes on
  // with the next.
  EventLoop(Task on_tick, Task after, Counter* exceptions);
  // Stops it first.
  ~EventLoop() override;

  void Start();
  // Runs what is queued, waits until nothing of the loop's objects waits, then joins. Tasks that
  // come later are dropped.
  void Stop();

  // Runs `task` with the turn, in the order of the calls. Any thread.
  void Post(Task task) MEMORYD_EXCLUDES(mutex_);

  bool HasTurn() const { return with_turn_ == this; }
  boost::asio::io_context& context() { return context_; }
  // What is read goes through it, so that connections that wait need no buffer of their own. With
  // the turn.
  std::array<char, 65536>& buffer() { return buffer_; }
  // Runs what `context` has an event for, with the turn. On the thread that polls.
  void Handle(absl::FunctionRef<void()> event) MEMORYD_EXCLUDES(turn_);

 private:
  void Serve() MEMORYD_EXCLUDES(roles_);
  // Waits until nobody polls. False at the end of the loop.
  bool TakePolling() MEMORYD_EXCLUDES(roles_);
  void LeavePolling(bool at_end) MEMORYD_EXCLUDES(roles_);
  // Handles events until one has given this thread something to do, which is returned; empty at the
  // end of the loop.
  Task Poll();
  bool Accept(CallThread::Task& task) override MEMORYD_EXCLUDES(roles_);
  void Visit() override MEMORYD_EXCLUDES(turn_);
  void WakeUp() override MEMORYD_EXCLUDES(mutex_);
  // The rest of a turn: what has been posted, then `after`. WakeUp() comes next, for what was
  // posted too late for it.
  void EndTurn() MEMORYD_REQUIRES(turn_);
  // Runs `work`, and counts what it throws.
  template <typename Work>
  void Guarded(Work&& work) {
    try {
      work();
    } catch (...) {
      Increment(exceptions_);
    }
  }
  void WaitForTick();

  Task on_tick_;
  Task after_;
  Counter& exceptions_;
  boost::asio::io_context context_{1};
  boost::asio::steady_timer timer_{context_};
  std::array<char, 65536> buffer_;
  inline static thread_local const EventLoop* with_turn_ = nullptr;
  Mutex turn_;
  std::vector<Task> running_ MEMORYD_GUARDED_BY(turn_);
  bool ending_ = false;   // With the turn.
  bool ticking_ = false;  // The timer runs. With the turn.
  Mutex mutex_;
  std::vector<Task> tasks_ MEMORYD_GUARDED_BY(mutex_);
  bool woken_ MEMORYD_GUARDED_BY(mutex_) = false;  // An event is on its way, to run `tasks_`.
  bool stopped_ MEMORYD_GUARDED_BY(mutex_) = false;
  // Of the thread that polls.
  Task own_;
  Mutex roles_;
  CondVar polling_is_free_;
  int standing_by_ MEMORYD_GUARDED_BY(roles_) = 0;
  bool polled_ MEMORYD_GUARDED_BY(roles_) = false;
  bool ended_ MEMORYD_GUARDED_BY(roles_) = false;
  std::array<std::thread, 2> threads_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_EVENT_LOOP_H_
