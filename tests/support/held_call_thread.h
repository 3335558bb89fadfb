// A thread of calls that keeps what it is asked to do.
#ifndef MEMORYD_TESTS_SUPPORT_HELD_CALL_THREAD_H_
#define MEMORYD_TESTS_SUPPORT_HELD_CALL_THREAD_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "core/calls/call_thread.h"

namespace memoryd {

class HeldCallThread final : public CallThread {
 public:
  // Accepts at most `most` tasks.
  explicit HeldCallThread(int most = 1) : left_(most) {}

  // Calls function() as this thread.
  template <typename Function>
  void Take(const Function& function) {
    const Scope scope(this);
    function();
  }
  // Runs what was accepted.
  void Run() {
    for (Task& task : std::exchange(accepted_, {})) task();
  }
  std::size_t accepted() const { return accepted_.size(); }

 private:
  bool Accept(Task& task) override {
    if (left_ == 0) return false;
    --left_;
    accepted_.push_back(std::move(task));
    return true;
  }

  int left_;
  std::vector<Task> accepted_;
};

}  // namespace memoryd

#endif  // MEMORYD_TESTS_SUPPORT_HELD_CALL_THREAD_H_
