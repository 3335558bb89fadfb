// A library to preload (LD_PRELOAD) that puts a server's clock of the day ahead of the machine's.
// CLOCK_AHEAD_FILE is a file of 8 bytes that it shares with the test: by how many nanoseconds.
// Clocks that measure how long something takes stay as they are. A change is seen at once, in
// contrast to libfaketime's.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

using Nanoseconds = std::atomic<std::int64_t>;

const Nanoseconds& Ahead() {
  static const Nanoseconds* const ahead = [] {
    const char* path = std::getenv("CLOCK_AHEAD_FILE");
    const int file = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void* memory = mmap(nullptr, sizeof(Nanoseconds), PROT_READ, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) std::abort();
    close(file);
    return static_cast<const Nanoseconds*>(memory);
  }();
  return *ahead;
}

timespec Moved(timespec time, std::int64_t by) {
  const std::int64_t moved = time.tv_sec * kSecond + time.tv_nsec + by;
  time.tv_sec = moved / kSecond;
  time.tv_nsec = moved % kSecond;
  return time;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (result == 0 && clock == CLOCK_REALTIME) *time = Moved(*time, Ahead());
  return result;
}

// The end of a wait comes from the clock above, and the kernel waits by its own.
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* end) {
  using Wait = int (*)(pthread_cond_t*, pthread_mutex_t*, const timespec*);
  static const auto wait = reinterpret_cast<Wait>(dlsym(RTLD_NEXT, "pthread_cond_timedwait"));
  const timespec moved = Moved(*end, -Ahead());
  return wait(condition, mutex, &moved);
}

}  // extern "C"
