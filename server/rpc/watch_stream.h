// One watch of a session.
#ifndef MEMORYD_SERVER_RPC_WATCH_STREAM_H_
#define MEMORYD_SERVER_RPC_WATCH_STREAM_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/model/session.h"
#include "core/reads/session_reads.h"
#include "core/reads/session_state.h"
#include "server/access/authenticator.h"
#include "server/access/tenant_limiter.h"
#include "server/rpc/unary_call.h"
#include "server/wire/rpc_call.h"

namespace memoryd {

class WatchService;

// Keeps the session's state as the reader knows it, and sends what has changed since. While the
// session is looked at, or a reply has not left, it is busy and keeps nothing else: what happens
// then is part of the next reply.
class WatchStream final : public RpcHandler,
                          public CallWatch,
                          public std::enable_shared_from_this<WatchStream> {
 public:
  using Clock = std::chrono::steady_clock;

  // What a stream needs for as long as anybody refers to it, which may be longer than there is a
  // service: a read that is under way then still ends.
  struct Parts {
    SessionReads* reads = nullptr;
    CallEnvironment environment;
    std::chrono::milliseconds quiet_time{0};
  };

  // The service outlives the call.
  WatchStream(WatchService* service, Parts parts, RpcCallPtr rpc);

  // Who calls, and his place among his tenant's watches. Once, before anybody else knows of it.
  absl::Status Admit() MEMORYD_EXCLUDES(mutex_);
  // What is to be looked at now; nullopt while it is busy, has not begun or has ended.
  std::optional<SessionKey> Watched() MEMORYD_EXCLUDES(mutex_);
  // `stored`: the session's version in the store, nullopt where it is not there. Looks at the
  // session if the reader does not know this one, or tells that there is no news if it is time.
  void Tick(const std::optional<SessionVersion>& stored, Clock::time_point now)
      MEMORYD_EXCLUDES(mutex_);
  // Ends the call once; any thread.
  void End(const absl::Status& status) MEMORYD_EXCLUDES(mutex_);

  // RpcHandler.
  void OnMessage(std::string_view bytes) override;
  void OnReadEnd(const absl::Status& status) override;
  void OnSent() override;
  void OnCancel() override;
  void OnDone() override;
  // CallWatch.
  bool IsCancelled() const override { return rpc_->IsCancelled(); }

 private:
  absl::Status Take(std::string_view bytes) MEMORYD_EXCLUDES(mutex_);
  void Look() MEMORYD_EXCLUDES(mutex_);
  void Looked(absl::StatusOr<SessionState> state) MEMORYD_EXCLUDES(mutex_);
  // Sends what is new in `state`; whether that was anything.
  absl::StatusOr<bool> Tell(SessionState state) MEMORYD_EXCLUDES(mutex_);
  // Whether the caller may still read: credentials end while a watch goes on.
  absl::Status CheckCaller() const;
  void SetIdle() MEMORYD_EXCLUDES(mutex_);

  WatchService& service_;
  const Parts parts_;
  const RpcCallPtr rpc_;
  const Clock::time_point start_ = Clock::now();
  std::atomic<bool> ended_{false};
  Caller caller_;                               // Of Admit().
  std::optional<std::int64_t> after_revision_;  // Set before the first look.
  Mutex mutex_;
  SessionKey key_ MEMORYD_GUARDED_BY(mutex_);
  TenantLimiter::Place place_ MEMORYD_GUARDED_BY(mutex_);
  bool busy_ MEMORYD_GUARDED_BY(mutex_) = true;
  std::optional<SessionState> state_ MEMORYD_GUARDED_BY(mutex_);
  MemoryBudget::Hold hold_ MEMORYD_GUARDED_BY(mutex_);
  Clock::time_point told_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_WATCH_STREAM_H_
