// How much the threads of a session have to say to a query.
#ifndef MEMORYD_CORE_RETRIEVAL_THREAD_LIKENESSES_H_
#define MEMORYD_CORE_RETRIEVAL_THREAD_LIKENESSES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace memoryd {

// By the messages in each that are most like the query: the mean of the best three, of which those
// that a thread lacks count 0.
class ThreadLikenesses {
 public:
  explicit ThreadLikenesses(std::size_t threads) : best_(threads) {}

  void Add(std::uint32_t thread, double likeness) {
    if (likeness <= best_[thread].back()) return;
    for (double& best : best_[thread]) {
      if (likeness > best) std::swap(likeness, best);
    }
    largest_ = std::max(largest_, Mean(thread));
  }

  // By how much it is behind the best thread; at least 0. To be asked when all are added.
  double Behind(std::uint32_t thread) const { return largest_ - Mean(thread); }

 private:
  static constexpr std::size_t kBestOfThread = 3;

  double Mean(std::uint32_t thread) const {
    const auto& best = best_[thread];
    return std::accumulate(best.begin(), best.end(), 0.0) / kBestOfThread;
  }

  std::vector<std::array<double, kBestOfThread>> best_;  // The largest first.
  double largest_ = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_THREAD_LIKENESSES_H_
