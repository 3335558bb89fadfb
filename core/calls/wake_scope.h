// Wakes whoever waits once for all that a task has for it.
#ifndef MEMORYD_CORE_CALLS_WAKE_SCOPE_H_
#define MEMORYD_CORE_CALLS_WAKE_SCOPE_H_

#include <memory>
#include <vector>

namespace memoryd {

// A task that ends several calls opens a scope. At its end this thread itself sends the replies
// that nobody is about to send, all at once; or, if it has more to do, it wakes whose business that
// is. The task holds no lock then, and does not wait between its first reply and the end of the
// scope. Scopes may nest: the outermost one counts.
class WakeScope {
 public:
  // Has work that other threads gave it.
  class Sleeper {
   public:
    virtual ~Sleeper() = default;
    // Both throw nothing. Does the work, unless somebody is at it, who does it then.
    virtual void Visit() = 0;
    // Has its own thread do the work.
    virtual void WakeUp() = 0;
  };

  enum class AtEnd { kVisit, kWakeUp };

  explicit WakeScope(AtEnd at_end = AtEnd::kVisit) : at_end_(at_end) { ++depth_; }
  ~WakeScope();
  WakeScope(const WakeScope&) = delete;
  WakeScope& operator=(const WakeScope&) = delete;

  // Whether this thread is in a scope.
  static bool IsOpen() { return depth_ > 0; }
  // Visits or wakes `sleeper` at the end of this thread's scope, which is open.
  static void Add(const std::shared_ptr<Sleeper>& sleeper);

 private:
  const AtEnd at_end_;
  inline static thread_local int depth_ = 0;
  inline static thread_local std::vector<std::shared_ptr<Sleeper>> sleepers_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_CALLS_WAKE_SCOPE_H_
