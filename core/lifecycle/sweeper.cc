#include "core/lifecycle/sweeper.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/histogram.h"
#include "core/storage/store.h"

namespace memoryd {
namespace {

using Clock = std::chrono::steady_clock;

// Between two looks at what was read, at most.
constexpr std::chrono::milliseconds kFlushReads(1000);
// Rows per statement: small, so that a sweep never holds up a commit for long.
constexpr std::int64_t kSweepRows = 500;

}  // namespace

Sweeper::Sweeper(Options options) : options_(std::move(options)), thread_([this] { Run(); }) {}

Sweeper::~Sweeper() { thread_.join(); }

void Sweeper::Run() {
  auto sweep_at = Clock::now() + options_.interval;
  while (!options_.calls->WaitForStop(std::min(sweep_at, Clock::now() + kFlushReads))) {
    const bool is_due = Clock::now() >= sweep_at;
    try {
      is_due ? Sweep() : options_.touches->Flush();
    } catch (...) {
      Increment(options_.calls->stats().exceptions);
    }
    if (is_due) sweep_at = Clock::now() + options_.interval;
  }
}

void Sweeper::Sweep() {
  if (options_.quotas != nullptr && options_.shared) options_.quotas->Refresh();
  // What it deletes is purged at once.
  if (options_.calls->serving()) options_.expiry->Sweep();
  const PurgeLimits limits{
      options_.clock->NowUs(),
      std::chrono::duration_cast<std::chrono::microseconds>(options_.keep_requests).count(),
      kSweepRows};
  PurgeAll([&] { return options_.store->Purge(limits); });
  PurgeAll([&] {
    return options_.store->Items().PurgeItems(limits.now_us, limits.keep_us, limits.max_rows);
  });
}

void Sweeper::PurgeAll(const std::function<absl::StatusOr<std::int64_t>()>& purge) {
  for (;;) {
    const auto purged = purge();
    // An error shows in health checks; the next sweep tries again.
    if (!purged.ok() || *purged < kSweepRows) return;
    if (options_.calls->stopping()) return;
  }
}

}  // namespace memoryd
