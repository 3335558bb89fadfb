// What workers have been asked since the server began.
#ifndef MEMORYD_CORE_WORKERS_WORKER_STATS_H_
#define MEMORYD_CORE_WORKERS_WORKER_STATS_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "core/base/histogram.h"
#include "core/workers/worker_call.h"

namespace memoryd {

// The canonical codes, OK to UNAUTHENTICATED.
inline constexpr std::size_t kWorkerCallCodes = 17;

// Any thread may call any method; none of them waits. `kind` is a place in kWorkerCallKinds.
class WorkerStats {
 public:
  void Ended(std::size_t kind, absl::StatusCode code, std::chrono::steady_clock::duration took) {
    const auto index = static_cast<std::size_t>(code);
    Increment(kinds_[kind].codes[index < kWorkerCallCodes ? index : kUnknown]);
    kinds_[kind].seconds.Observe(took);
  }
  void IgnoredResult() { Increment(ignored_results_); }

  std::uint64_t ended(std::size_t kind, std::size_t code) const { return kinds_[kind].codes[code]; }
  HistogramSnapshot seconds(std::size_t kind) const { return kinds_[kind].seconds.Snapshot(); }
  // Results that nobody waited for any more.
  std::uint64_t ignored_results() const { return ignored_results_; }

 private:
  static constexpr auto kUnknown = static_cast<std::size_t>(absl::StatusCode::kUnknown);

  struct PerKind {
    std::array<Counter, kWorkerCallCodes> codes{};
    DurationHistogram seconds;
  };
  std::array<PerKind, kWorkerCallKinds.size()> kinds_;
  Counter ignored_results_{0};
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WORKERS_WORKER_STATS_H_
