// When a call ends without an answer.
#ifndef MEMORYD_CORE_CALLS_CALL_END_H_
#define MEMORYD_CORE_CALLS_CALL_END_H_

#include <chrono>
#include <memory>
#include <utility>

#include "absl/status/status.h"

namespace memoryd {

// Tells whether anybody waits for a call's answer. Any thread.
class CallWatch {
 public:
  virtual ~CallWatch() = default;
  virtual bool IsCancelled() const = 0;
};

// At its deadline, or when its caller is gone: work that has not begun by then is dropped.
struct CallEnd {
  // Without a watch the caller is never gone. Implicit: most calls have a deadline alone.
  CallEnd(std::chrono::steady_clock::time_point at,  // NOLINT(google-explicit-constructor)
          std::shared_ptr<const CallWatch> watched = nullptr)
      : deadline(at), watch(std::move(watched)) {}

  std::chrono::steady_clock::time_point deadline;
  std::shared_ptr<const CallWatch> watch;
  // Whether it is a part of another call's work, which is counted as that call.
  bool is_part = false;
};

// CANCELLED, for work that stops because its call has been answered or its caller is gone.
absl::Status NobodyWaits();

}  // namespace memoryd

#endif  // MEMORYD_CORE_CALLS_CALL_END_H_
