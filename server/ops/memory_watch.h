// Keeps the process within the memory it may take, where the budget that counts does not suffice.
#ifndef MEMORYD_SERVER_OPS_MEMORY_WATCH_H_
#define MEMORYD_SERVER_OPS_MEMORY_WATCH_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/histogram.h"
#include "core/base/memory_budget.h"

namespace memoryd {

// Above 80 % of the limit it has the caches shrink. Where that is not enough, calls that take
// memory are refused until use has fallen below 75 %: those of tenants that hold at least as much
// as the mean of all, above 90 % those of every tenant.
class MemoryWatch {
 public:
  // `limit` 0: none, nothing is refused. `used` says what the process takes, in bytes. `budget`
  // must outlive this.
  MemoryWatch(std::int64_t limit, std::function<std::int64_t()> used, MemoryBudget* budget);

  // Compares. A few times a second, from one thread at a time.
  void Look();

  // RESOURCE_EXHAUSTED `MEMORY_SHORT`, with the value `retry_after_ms`, or OK. Any thread.
  absl::Status Admit(std::string_view tenant);

  // Any thread.
  std::int64_t limit() const { return limit_; }
  std::int64_t used() const { return used_now_.load(std::memory_order_relaxed); }
  std::uint64_t refused() const { return refused_; }

 private:
  const std::int64_t limit_;
  const std::function<std::int64_t()> used_;
  MemoryBudget& budget_;
  std::atomic<std::int64_t> used_now_{0};
  std::atomic<bool> short_{false};
  Counter refused_{0};
};

// How much callers may make a process hold that may take `limit` bytes, and takes `at_rest` before
// it serves; 0 for no limit.
std::int64_t MemoryBudgetFor(std::int64_t limit, std::int64_t at_rest);

// The most bytes of a request, by `max_request_mib`: no more than an eighth of a `budget` that is
// not 0, since one tenant has half of it, and a request is held as it came, as it was read, as it
// is stored and by the store's client library; but at least kLeastRequestMib. INVALID_ARGUMENT for
// a setting above kUsualRequestMib that does not fit; others are lowered, with a line in the log.
absl::StatusOr<std::int64_t> RequestBytes(std::int64_t max_request_mib, std::int64_t budget);

// What stands in memory of this process, without the page cache that the kernel takes back when it
// must.
std::int64_t ResidentBytes();

// The least limit of this process's control group and those above it: `memory.max` of version 2, or
// `memory.limit_in_bytes` of version 1, whichever is mounted. 0 for none. `root` is where they are
// mounted, `membership` the file that names the process's own.
std::int64_t ContainerMemoryLimit(std::string_view root = "/sys/fs/cgroup",
                                  std::string_view membership = "/proc/self/cgroup");

}  // namespace memoryd

#endif  // MEMORYD_SERVER_OPS_MEMORY_WATCH_H_
