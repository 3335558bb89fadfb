// A thread that serves connections, and waits for all of them at once.
#ifndef MEMORYD_SERVER_HTTP2_EVENT_LOOP_H_
#define MEMORYD_SERVER_HTTP2_EVENT_LOOP_H_

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "core/base/histogram.h"
#include "core/base/mutex.h"

namespace memoryd {

// Objects that wait in the loop belong to it: they are made, used and destroyed on its thread.
class EventLoop {
 public:
  using Task = absl::AnyInvocable<void()>;

  // `on_tick` runs once a second, `after` when events and tasks have been handled and before the
  // loop waits again. Both on the loop's thread. `exceptions`, which must outlive it, counts tasks
  // and events that threw; the loop goes on with the next.
  EventLoop(Task on_tick, Task after, Counter* exceptions);
  // Stops it first.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  void Start();
  // Runs what is queued, waits until nothing of the loop's objects waits, then joins. Tasks that
  // come later are dropped.
  void Stop();

  // Runs `task` on the loop's thread, in the order of the calls. Any thread.
  void Post(Task task) MEMORYD_EXCLUDES(mutex_);

  bool IsThisThread() const { return std::this_thread::get_id() == id_.load(); }
  boost::asio::io_context& context() { return context_; }
  // What is read goes through it, so that connections that wait need no buffer of their own. On the
  // loop's thread.
  std::array<char, 65536>& buffer() { return buffer_; }
  // To be called at the end of each event that is none of the loop's own.
  void Handled() { Guarded(after_); }

 private:
  void Run();
  void RunTasks() MEMORYD_EXCLUDES(mutex_);
  // Runs `task`, and counts what it throws.
  void Guarded(Task& task);
  void WaitForTick();

  Task on_tick_;
  Task after_;
  Counter& exceptions_;
  boost::asio::io_context context_{1};
  boost::asio::steady_timer timer_{context_};
  std::array<char, 65536> buffer_;
  Mutex mutex_;
  std::vector<Task> tasks_ MEMORYD_GUARDED_BY(mutex_);
  bool stopped_ MEMORYD_GUARDED_BY(mutex_) = false;
  // Of the loop's thread.
  std::vector<Task> running_;
  bool ending_ = false;
  bool ticking_ = false;  // The timer runs.
  std::atomic<std::thread::id> id_{};
  std::thread thread_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_EVENT_LOOP_H_
