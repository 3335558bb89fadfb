// How long the writes that wait for a committer will take, judged by its latest batches.
#ifndef MEMORYD_CORE_WRITES_COMMIT_PACE_H_
#define MEMORYD_CORE_WRITES_COMMIT_PACE_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>

namespace memoryd {

// What writes cost is counted in a unit of the caller's.
class CommitPace {
 public:
  // How long writes of this cost take: as long for each unit as in the quicker of the last two
  // batches, so that one stalled batch is no verdict. Unless that was a full one, more than four
  // times what the larger of these cost count as that: a batch of many may take little longer than
  // one of a few. Zero before the second batch. Any thread.
  std::chrono::nanoseconds Expected(std::int64_t cost) const {
    const std::int64_t counted = std::min(cost, believed_.load(std::memory_order_relaxed));
    return std::chrono::nanoseconds(static_cast<std::int64_t>(
        static_cast<double>(counted) * unit_ns_.load(std::memory_order_relaxed)));
  }

  // A batch of this cost, at least 1, has taken so long. `full`: it had no room for more. The
  // committer's thread only.
  void Observe(std::int64_t cost, std::chrono::nanoseconds took, bool full) {
    const Batch batch{full ? kAny : kBelieved * cost,
                      static_cast<double>(took.count()) / static_cast<double>(cost)};
    unit_ns_.store(std::min(batch.unit_ns, last_.unit_ns), std::memory_order_relaxed);
    believed_.store(std::max(batch.believed, last_.believed), std::memory_order_relaxed);
    last_ = batch;
  }

 private:
  static constexpr std::int64_t kBelieved = 4;
  static constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

  struct Batch {
    std::int64_t believed = 0;
    double unit_ns = 0;
  };

  Batch last_;
  std::atomic<double> unit_ns_{0};
  std::atomic<std::int64_t> believed_{0};
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_COMMIT_PACE_H_
