// Sessions whose time is over, and messages whose time is over behind the Puts that they waited
// for.
#ifndef MEMORYD_CORE_LIFECYCLE_SESSION_EXPIRY_H_
#define MEMORYD_CORE_LIFECYCLE_SESSION_EXPIRY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/calls/engine_stats.h"
#include "core/sessions/session_cache.h"
#include "core/writes/write.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/storage/store.h"

namespace memoryd {

// Any thread may call NoteRead(); one thread calls the others, which block. Several servers may do
// so over one store: who comes second finds nothing to do.
class SessionExpiry {
 public:
  struct Options {
    Store* store = nullptr;
    SessionCache* cache = nullptr;
    EngineStats* stats = nullptr;
    std::int64_t max_active_bytes = kAllActive;
    std::function<void(WriteRequest, Write::Done)> submit;
    std::function<std::int64_t()> now_us;
    std::function<bool()> stopping;
  };

  explicit SessionExpiry(Options options) : options_(std::move(options)) {}

  // The session was read. Costs a look at the configuration where that does not count.
  void NoteRead(const SessionKey& key, const SessionRow& row, const SessionConfig& config) {
    if (config.retention.refresh_on_read && row.expire_us > 0) Touch(key, row, config.retention);
  }

  // Stores what was noted; what could not be stored stays noted.
  void FlushReads() MEMORYD_EXCLUDES(mutex_);

  // Has the writes done that are due, until there are none, the engine stops or none succeeds. Up
  // to 64,000 sessions that can't be handled keep none behind them waiting.
  void Sweep() MEMORYD_EXCLUDES(mutex_);

 private:
  struct Round;

  void Touch(const SessionKey& key, const SessionRow& row, const Retention& retention)
      MEMORYD_EXCLUDES(mutex_);
  bool IsTouched(const DueSession& due) MEMORYD_EXCLUDES(mutex_);
  // Whether the session may not be held whole, so that its active messages are looked at here.
  bool MayBeTooLarge(const SessionRow& row) const;
  // What is configured, read from the store where it was not listed.
  absl::StatusOr<SessionSettings> SettingsOf(const DueSession& due) const;
  // What is to become of the session's messages.
  absl::StatusOr<SweepRequest> Look(const DueSession& due, const SessionSettings& settings,
                                    std::int64_t now_us) const;
  // Finds what of the session is not in memory and has a time of its own that is over.
  absl::Status FindExpired(const DueSession& due, std::int64_t now_us, SweepRequest& sweep) const;
  // Where what its open jobs have still to feed begins.
  absl::StatusOr<std::int64_t> FirstToFeed(const DueSession& due,
                                           const SessionConfig& config) const;
  // Has entries of blocks taken out that hold what is gone of the session.
  absl::Status SweepEntries(const DueSession& due, const SessionSettings& listed,
                            const std::shared_ptr<Round>& round);
  void Submit(const DueSession& due, WriteRequest write, const std::shared_ptr<Round>& round);

  const Options options_;
  Mutex mutex_;
  std::unordered_map<SessionKey, SessionTouch, SessionKeyHash> touches_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_LIFECYCLE_SESSION_EXPIRY_H_
