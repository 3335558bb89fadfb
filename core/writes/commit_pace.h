// How long the writes that wait for a committer will take, judged by its latest batches.
#ifndef MEMORYD_CORE_WRITES_COMMIT_PACE_H_
#define MEMORYD_CORE_WRITES_COMMIT_PACE_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace memoryd {

class CommitPace {
 public:
  // How long `writes` take: as long each as in the quicker of the last two batches, so that one
  // stalled batch is no verdict. More than four times what the larger of these held count as that:
  // a batch of many may cost little more than one of a few. Zero before the first batch. Any
  // thread.
  std::chrono::nanoseconds Expected(std::size_t writes) const {
    const std::int64_t believed = believed_writes_.load(std::memory_order_relaxed);
    const std::int64_t counted = std::min(static_cast<std::int64_t>(writes), believed);
    return std::chrono::nanoseconds(counted * write_ns_.load(std::memory_order_relaxed));
  }

  // A batch of at least one write has taken so long. The committer's thread only.
  void Observe(std::size_t writes, std::chrono::nanoseconds took) {
    const auto count = static_cast<std::int64_t>(writes);
    const Batch batch{count, took.count() / count};
    write_ns_.store(std::min(batch.write_ns, last_.write_ns), std::memory_order_relaxed);
    believed_writes_.store(kBelieved * std::max(batch.writes, last_.writes),
                           std::memory_order_relaxed);
    last_ = batch;
  }

 private:
  static constexpr std::int64_t kBelieved = 4;

  struct Batch {
    std::int64_t writes = 0;
    std::int64_t write_ns = 0;
  };

  Batch last_;
  std::atomic<std::int64_t> write_ns_{0};
  std::atomic<std::int64_t> believed_writes_{0};
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_COMMIT_PACE_H_
