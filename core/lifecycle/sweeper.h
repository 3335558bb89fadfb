// What goes by itself: expired sessions and messages, and what is left of what was deleted.
#ifndef MEMORYD_CORE_LIFECYCLE_SWEEPER_H_
#define MEMORYD_CORE_LIFECYCLE_SWEEPER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

#include "absl/status/statusor.h"
#include "core/base/wall_clock.h"
#include "core/calls/calls.h"
#include "core/lifecycle/session_expiry.h"
#include "core/sessions/session_touches.h"
#include "core/storage/store.h"
#include "core/writes/quotas.h"

namespace memoryd {

// A thread that looks for it, as long as the calls go on.
class Sweeper {
 public:
  // What is pointed to outlives it.
  struct Options {
    Store* store = nullptr;
    Calls* calls = nullptr;
    SessionTouches* touches = nullptr;
    SessionExpiry* expiry = nullptr;
    // Null: no tenant has one. `shared`: other servers store too, so that they are read anew.
    Quotas* quotas = nullptr;
    bool shared = true;
    std::chrono::milliseconds interval{10'000};
    // Request records, tombstones and jobs that ended are kept this long.
    std::chrono::hours keep_requests{24};
    const WallClock* clock = nullptr;
  };

  explicit Sweeper(Options options);
  // Calls::Stop() comes before.
  ~Sweeper();
  Sweeper(const Sweeper&) = delete;
  Sweeper& operator=(const Sweeper&) = delete;

 private:
  void Run();
  void Sweep();
  // Calls `purge`, which deletes kSweepRows rows at most, until fewer are left.
  void PurgeAll(const std::function<absl::StatusOr<std::int64_t>()>& purge);

  const Options options_;
  std::thread thread_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_LIFECYCLE_SWEEPER_H_
