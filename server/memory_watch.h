// Keeps the process within the memory it may take.
#ifndef MEMORYD_SERVER_MEMORY_WATCH_H_
#define MEMORYD_SERVER_MEMORY_WATCH_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/status.h"
#include "core/base/histogram.h"

namespace memoryd {

// Above 80 % of the limit it has the caches shrink; where that is not enough, calls that take
// memory are refused until use has fallen below 75 %.
class MemoryWatch {
 public:
  // `limit` 0: none, nothing is refused. `used` says what the process takes, in bytes; `shrink`
  // lets go of what can be had again.
  MemoryWatch(std::int64_t limit, std::function<std::int64_t()> used, std::function<void()> shrink);

  // Compares. A few times a second, from one thread at a time.
  void Look();

  // RESOURCE_EXHAUSTED `MEMORY_SHORT`, with the value `retry_after_ms`, or OK. Any thread.
  absl::Status Admit();

  // Any thread.
  std::int64_t limit() const { return limit_; }
  std::int64_t used() const { return used_now_.load(std::memory_order_relaxed); }
  std::uint64_t refused() const { return refused_; }

 private:
  const std::int64_t limit_;
  const std::function<std::int64_t()> used_;
  const std::function<void()> shrink_;
  std::atomic<std::int64_t> used_now_{0};
  std::atomic<bool> short_{false};
  Counter refused_{0};
};

// What stands in memory of this process, without the page cache that the kernel takes back when it
// must.
std::int64_t ResidentBytes();

// The least `memory.max` of this process's control group (version 2) and those above it; 0 for
// none. `root` is where they are mounted, `membership` the file that names the process's own.
std::int64_t ContainerMemoryLimit(std::string_view root = "/sys/fs/cgroup",
                                  std::string_view membership = "/proc/self/cgroup");

}  // namespace memoryd

#endif  // MEMORYD_SERVER_MEMORY_WATCH_H_
