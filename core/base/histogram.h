// Counts for what goes on inside, read by whoever exports them. No lock, no string, no clock: a few
// relaxed additions.
#ifndef MEMORYD_CORE_BASE_HISTOGRAM_H_
#define MEMORYD_CORE_BASE_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

namespace memoryd {

using Counter = std::atomic<std::uint64_t>;

inline void Increment(Counter& counter, std::uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

// What a histogram held at some time.
struct HistogramSnapshot {
  std::span<const std::int64_t> bounds;  // Upper bounds, inclusive, ascending.
  std::vector<std::uint64_t> counts;  // Per bucket; the last one is for what is above all bounds.
  std::int64_t sum = 0;
};

// Buckets with the upper bounds `kBounds`, an ascending array with static storage. Any thread may
// call any method. A snapshot taken while values come in may have one of them in its count but not
// yet in its sum.
template <const auto& kBounds>
class Histogram {
 public:
  void Observe(std::int64_t value) {
    const auto bound = std::lower_bound(std::begin(kBounds), std::end(kBounds), value);
    const auto bucket = static_cast<std::size_t>(bound - std::begin(kBounds));
    Increment(counts_[bucket]);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }

  HistogramSnapshot Snapshot() const {
    HistogramSnapshot snapshot{kBounds, {}, sum_.load(std::memory_order_relaxed)};
    for (const Counter& count : counts_) {
      snapshot.counts.push_back(count.load(std::memory_order_relaxed));
    }
    return snapshot;
  }

 private:
  std::array<Counter, std::size(kBounds) + 1> counts_{};
  std::atomic<std::int64_t> sum_{0};
};

// Nanoseconds, 100 µs to 30 s.
inline constexpr std::array<std::int64_t, 17> kDurationBounds = {
    100'000,       250'000,       500'000,       1'000'000,      2'500'000,      5'000'000,
    10'000'000,    25'000'000,    50'000'000,    100'000'000,    250'000'000,    500'000'000,
    1'000'000'000, 2'500'000'000, 5'000'000'000, 10'000'000'000, 30'000'000'000,
};

class DurationHistogram : public Histogram<kDurationBounds> {
 public:
  using Histogram::Observe;
  void Observe(std::chrono::steady_clock::duration duration) {
    Observe(std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
  }
};

// How many of something came together.
inline constexpr std::array<std::int64_t, 11> kSizeBounds = {1,  2,   4,   8,   16,  32,
                                                             64, 128, 256, 512, 1024};
using SizeHistogram = Histogram<kSizeBounds>;

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_HISTOGRAM_H_
