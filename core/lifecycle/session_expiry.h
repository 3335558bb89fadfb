// Sessions whose time is over, and messages whose time is over behind the Puts that they waited
// for.
#ifndef MEMORYD_CORE_LIFECYCLE_SESSION_EXPIRY_H_
#define MEMORYD_CORE_LIFECYCLE_SESSION_EXPIRY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/base/wall_clock.h"
#include "core/calls/engine_stats.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/sessions/session_cache.h"
#include "core/sessions/session_touches.h"
#include "core/storage/store.h"
#include "core/writes/write.h"
#include "core/writes/write_queue.h"

namespace memoryd {

// One thread calls, and is blocked. Several servers may do so over one store: who comes second
// finds nothing to do.
class SessionExpiry {
 public:
  struct Options {
    Store* store = nullptr;
    SessionTouches* touches = nullptr;
    EngineStats* stats = nullptr;
    std::int64_t max_active_bytes = kAllActive;
    WriteQueue* writes = nullptr;
    const WallClock* clock = nullptr;
    std::function<bool()> stopping;
  };

  explicit SessionExpiry(Options options) : options_(std::move(options)) {}

  // Has the writes done that are due, until there are none, the engine stops or none succeeds. Up
  // to 64,000 sessions that can't be handled keep none behind them waiting.
  void Sweep();

 private:
  struct Round;

  // Whether the session may not be held whole, so that its active messages are looked at here.
  bool MayBeTooLarge(const SessionRow& row) const;
  // What is configured, read from the store where it was not listed.
  absl::StatusOr<SessionSettings> SettingsOf(const DueSession& due) const;
  // What is to become of the session's messages.
  absl::StatusOr<SweepRequest> Look(const DueSession& due, const SessionSettings& settings,
                                    std::int64_t now_us) const;
  // Finds which of its archived messages retention takes.
  absl::Status FindLeaving(const DueSession& due, const Retention& retention, std::int64_t now_us,
                           SweepRequest& sweep) const;
  // Finds what of the session is not in memory and has a time of its own that is over.
  absl::Status FindExpired(const DueSession& due, std::int64_t now_us, SweepRequest& sweep) const;
  // Where what its open jobs have still to feed begins.
  absl::StatusOr<std::int64_t> FirstToFeed(const DueSession& due,
                                           const SessionConfig& config) const;
  // Has what is due of one session done. An error: nothing could be found out.
  absl::Status SweepSession(const DueSession& due, std::int64_t now_us,
                            const std::shared_ptr<Round>& round);
  // Has what is due of those listed done, waits for it, and returns how many writes changed
  // something. Sessions it could do nothing about are added to `stuck`.
  std::int64_t SweepListed(const std::vector<DueSession>& listed, std::int64_t now_us,
                           std::set<SessionKey>& stuck);
  // Has entries of blocks taken out that hold what is gone of the session.
  absl::Status SweepEntries(const DueSession& due, const SessionSettings& listed,
                            const std::shared_ptr<Round>& round);
  void Submit(const DueSession& due, WriteRequest write, const std::shared_ptr<Round>& round);

  const Options options_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_LIFECYCLE_SESSION_EXPIRY_H_
