#include "server/rpc/watch_stream.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/reads/session_state.h"
#include "core/sessions/session_errors.h"
#include "core/storage/store.h"
#include "memoryd/v1/session_service.pb.h"
#include "server/ops/call_log.h"
#include "server/rpc/parse_request.h"
#include "server/rpc/reply.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/watch_service.h"
#include "server/settings/limits.h"
#include "server/wire/field_checks.h"
#include "server/wire/method.h"
#include "server/wire/rpc_call.h"

namespace memoryd {

WatchStream::WatchStream(WatchService* service, Parts parts, RpcCallPtr rpc)
    : service_(*service), parts_(std::move(parts)), rpc_(std::move(rpc)) {}

absl::Status WatchStream::Admit() {
  const CallEnvironment& environment = parts_.environment;
  MEMORYD_RETURN_IF_ERROR(CheckDeadline(*rpc_, start_));
  MEMORYD_ASSIGN_OR_RETURN(caller_, CallerOf(environment, *rpc_));
  MEMORYD_RETURN_IF_ERROR(Authorize(environment, caller_, Method::kWatchSession));
  MEMORYD_RETURN_IF_ERROR(rpc_->ChargeTo(caller_.tenant));
  // Counts for the rate, and as under way no longer than that takes.
  MEMORYD_RETURN_IF_ERROR(environment.tenants->Enter(caller_.tenant).status());
  MutexLock lock(mutex_);
  MEMORYD_ASSIGN_OR_RETURN(place_, environment.tenants->EnterWatch(caller_.tenant));
  return absl::OkStatus();
}

void WatchStream::OnMessage(std::string_view bytes) {
  absl::Status status;
  try {
    status = Take(bytes);
  } catch (...) {
    status = CaughtException();
  }
  if (status.ok()) {
    Look();
  } else {
    End(status);
  }
}

absl::Status WatchStream::Take(std::string_view bytes) {
  v1::WatchSessionRequest request;
  MEMORYD_ASSIGN_OR_RETURN(const MemoryBudget::Hold hold, ParseRequest(*rpc_, bytes, request));
  MEMORYD_RETURN_IF_ERROR(CheckSessionId(request.session_id()));
  if (request.after_revision() < 0) {
    return InvalidField("after_revision", "must be at least 0");
  }
  if (request.has_after_revision()) after_revision_ = request.after_revision();
  MutexLock lock(mutex_);
  key_ = {caller_.tenant, request.session_id()};
  return absl::OkStatus();
}

void WatchStream::OnReadEnd(const absl::Status& status) {
  End(status.ok() ? Error(absl::StatusCode::kInvalidArgument, "MALFORMED_REQUEST",
                          "the call ended without a request")
                  : status);
}

std::optional<SessionKey> WatchStream::Watched() {
  if (ended_) return std::nullopt;
  MutexLock lock(mutex_);
  if (busy_) return std::nullopt;
  return key_;
}

void WatchStream::Tick(const std::optional<SessionVersion>& stored, Clock::time_point now) {
  bool is_known = false;
  std::string quiet;
  {
    MutexLock lock(mutex_);
    if (ended_ || busy_) return;
    const SessionVersion known = state_->version();
    const SessionVersion version = stored.value_or(SessionVersion());
    is_known = version.generation == known.generation && version.revision == known.revision;
    if (is_known && now < told_ + parts_.quiet_time) return;
    busy_ = true;
    if (is_known) {
      told_ = now;
      quiet = WatchSessionReply(key_.session, *state_, {}, /*reload=*/false);
    }
  }
  if (!is_known) {
    Look();
  } else if (const absl::Status status = CheckCaller(); status.ok()) {
    rpc_->Send(std::move(quiet), {});
  } else {
    End(status);
  }
}

void WatchStream::Look() {
  SessionKey key;
  {
    MutexLock lock(mutex_);
    key = key_;
  }
  parts_.reads->GetState(key, {Clock::now() + kMaxDeadline, shared_from_this()},
                         [self = shared_from_this()](absl::StatusOr<SessionState> state) {
                           self->Looked(std::move(state));
                         });
}

void WatchStream::Looked(absl::StatusOr<SessionState> state) {
  if (ended_) return;
  bool began = false;
  {
    MutexLock lock(mutex_);
    began = state_.has_value();
  }
  if (!state.ok()) {
    // The server has much to do: the next look finds this news too.
    if (began && absl::IsResourceExhausted(state.status())) {
      SetIdle();
    } else {
      End(state.status());
    }
    return;
  }
  absl::StatusOr<bool> told = false;
  try {
    told = Tell(*std::move(state));
  } catch (...) {
    told = CaughtException();
  }
  if (!told.ok()) {
    End(told.status());
  } else if (!*told) {
    SetIdle();
  }
}

absl::StatusOr<bool> WatchStream::Tell(SessionState state) {
  MEMORYD_RETURN_IF_ERROR(CheckCaller());
  const bool is_others =
      state.exists() && !caller_.subject.empty() && state.row.subject != caller_.subject;
  std::string reply;
  StateChanges news;
  {
    MutexLock lock(mutex_);
    if (ended_) return true;
    if (is_others || (!state_.has_value() && !state.exists())) return SessionNotFound();
    bool reload = false;
    if (!state_.has_value()) {
      MEMORYD_ASSIGN_OR_RETURN(
          hold_, rpc_->Take(MemoryUse::kReplies, static_cast<std::int64_t>(state.ByteSize())));
      reload = after_revision_.has_value() && *after_revision_ != state.row.revision;
    } else {
      const SessionVersion before = state_->version();
      const SessionVersion after = state.version();
      // The store is ahead of what is in memory; the next look sees it.
      if (before.generation == after.generation && before.revision == after.revision) return false;
      news = ChangesBetween(*state_, state);
      hold_.Resize(static_cast<std::int64_t>(state.ByteSize()));
    }
    told_ = Clock::now();
    reply = WatchSessionReply(key_.session, state, news, reload);
    state_ = std::move(state);
  }
  rpc_->Send(std::move(reply), {});
  if (!news.changes.empty() && news.changes.back() == StateChange::kDeleted) {
    End(absl::OkStatus());
  }
  return true;
}

absl::Status WatchStream::CheckCaller() const {
  MEMORYD_ASSIGN_OR_RETURN(const Caller caller, CallerOf(parts_.environment, *rpc_));
  MEMORYD_RETURN_IF_ERROR(Authorize(parts_.environment, caller, Method::kWatchSession));
  if (caller.tenant == caller_.tenant && caller.subject == caller_.subject) {
    return absl::OkStatus();
  }
  return Error(absl::StatusCode::kUnauthenticated, "UNAUTHENTICATED",
               "the credential belongs to another tenant or subject now; watch again");
}

void WatchStream::SetIdle() {
  MutexLock lock(mutex_);
  busy_ = false;
}

void WatchStream::OnSent() { SetIdle(); }

void WatchStream::OnCancel() { End(absl::CancelledError("the call was cancelled")); }

void WatchStream::OnDone() { service_.Forget(this); }

void WatchStream::End(const absl::Status& status) {
  if (ended_.exchange(true)) return;
  std::string session;
  {
    MutexLock lock(mutex_);
    session = key_.session;
    hold_.Release();
    place_ = {};
  }
  const CallEnvironment& environment = parts_.environment;
  const auto took = Clock::now() - start_;
  environment.stats->Ended(Method::kWatchSession, status.code(), took);
  const bool logged = environment.log->Wants(status.code());
  std::string request_id;
  if (logged || !status.ok()) {
    request_id = RequestId(rpc_->metadata().request_id);
    if (logged) {
      environment.log->Write({Method::kWatchSession, status, took, request_id,
                              TraceId(rpc_->metadata().traceparent), caller_.tenant, session});
    }
  }
  rpc_->Finish(status, request_id);
}

}  // namespace memoryd
