// A mutex that clang's thread-safety analysis checks and ThreadSanitizer understands.
//
// absl::Mutex would do, but Debian's build of Abseil is not instrumented and reports false races
// under ThreadSanitizer; std::mutex carries no annotations. See docs/adr/0003-mutex.md.
#ifndef MEMORYD_CORE_BASE_MUTEX_H_
#define MEMORYD_CORE_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define MEMORYD_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define MEMORYD_THREAD_ATTRIBUTE(x)
#endif

#if defined(__SANITIZE_THREAD__)
#define MEMORYD_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MEMORYD_THREAD_SANITIZER
#endif
#endif

#define MEMORYD_GUARDED_BY(mutex) MEMORYD_THREAD_ATTRIBUTE(guarded_by(mutex))
#define MEMORYD_REQUIRES(...) MEMORYD_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define MEMORYD_EXCLUDES(...) MEMORYD_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))

namespace memoryd {

class MEMORYD_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() MEMORYD_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  bool TryLock() MEMORYD_THREAD_ATTRIBUTE(try_acquire_capability(true)) {
    return mutex_.try_lock();
  }
  void Unlock() MEMORYD_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class MEMORYD_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) MEMORYD_THREAD_ATTRIBUTE(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() MEMORYD_THREAD_ATTRIBUTE(release_capability()) { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits may end early: call them in a loop that tests the condition.
class CondVar {
 public:
  void Wait(Mutex& mutex) MEMORYD_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // False when `deadline` passed.
  bool WaitUntil(Mutex& mutex, std::chrono::steady_clock::time_point deadline)
      MEMORYD_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
#if defined(MEMORYD_THREAD_SANITIZER)
    // This toolchain's ThreadSanitizer does not intercept the wait on the steady clock.
    const auto left = std::chrono::duration_cast<std::chrono::system_clock::duration>(
        deadline - std::chrono::steady_clock::now());
    const auto status = condition_.wait_until(lock, std::chrono::system_clock::now() + left);
#else
    const auto status = condition_.wait_until(lock, deadline);
#endif
    lock.release();
    return status == std::cv_status::no_timeout;
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_MUTEX_H_
