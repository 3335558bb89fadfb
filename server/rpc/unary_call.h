// One unary call: admitted by its headers, then read, parsed and handed to its handler.
//
// Replies are bytes, since one of stored messages is not built message by message.
#ifndef MEMORYD_SERVER_RPC_UNARY_CALL_H_
#define MEMORYD_SERVER_RPC_UNARY_CALL_H_

#include <google/protobuf/arena.h>
#include <google/protobuf/message.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/failpoint.h"
#include "core/base/memory_budget.h"
#include "core/base/status_macros.h"
#include "core/calls/call_end.h"
#include "core/model/trace_context.h"
#include "server/access/authenticator.h"
#include "server/access/tenant_limiter.h"
#include "server/ops/audit_log.h"
#include "server/ops/call_log.h"
#include "server/ops/call_stats.h"
#include "server/ops/calls_in_flight.h"
#include "server/ops/memory_watch.h"
#include "server/ops/span_exporter.h"
#include "server/rpc/parse_request.h"
#include "server/rpc/subject_gate.h"
#include "server/wire/method.h"
#include "server/wire/rpc_call.h"

namespace memoryd {

// What every call needs of the server it runs in. What is pointed to outlives all calls.
struct CallEnvironment {
  CallsInFlight* calls = nullptr;
  // Null: memory is not looked at.
  MemoryWatch* memory = nullptr;
  TenantLimiter* tenants = nullptr;
  // Null: authentication is off.
  const Authenticator* authenticator = nullptr;
  CallStats* stats = nullptr;
  const CallLog* log = nullptr;
  AuditLog* audit = nullptr;      // Null: none is kept.
  SpanExporter* spans = nullptr;  // Null: none are exported.
  OwnerLookup owner_of;           // Empty: callers of one subject are refused.
};

// Who makes the call, by its credential; of the tenant `default`, with all rights, where
// authentication is off. RESOURCE_EXHAUSTED `METADATA_TOO_LARGE` before that is looked for.
absl::StatusOr<Caller> CallerOf(const CallEnvironment& environment, const RpcCall& rpc);

// Whether that caller has the right that the method needs, and may reach what it reaches.
absl::Status Authorize(const CallEnvironment& environment, const Caller& caller, Method method);

// RESOURCE_EXHAUSTED while the process is short of memory, for a method that takes some.
absl::Status AdmitMemory(const CallEnvironment& environment, const Caller& caller, Method method);

// DEADLINE_EXCEEDED for a call whose deadline had passed before it came.
absl::Status CheckDeadline(const RpcCall& rpc, RpcCall::TimePoint now);

// The call's trace, with a span of its own; null where the caller names none.
TracePtr TraceOf(const RpcCall& rpc);

// Exports the span of a call that has ended, where that is wanted of it. `trace`: null for none.
void ExportSpan(const CallEnvironment& environment, Method method, const TracePtr& trace,
                const absl::Status& status, std::chrono::steady_clock::duration took);

// Finishes the call once, counts it and logs it; what comes later is dropped. A call that fails
// gets trailing metadata `x-request-id`: what the caller sent under that name, else a new id. Lives
// until the last reference goes, which may be after the caller has gone.
class UnaryCall : public CallWatch {
 public:
  UnaryCall(const CallEnvironment& environment, Method method, RpcCallPtr rpc);
  // A call that nobody has finished, since an exception came in the way, ends INTERNAL.
  ~UnaryCall() override;
  UnaryCall(const UnaryCall&) = delete;
  UnaryCall& operator=(const UnaryCall&) = delete;

  // Any thread.
  void Succeed(std::string reply);
  void Fail(const absl::Status& status);
  void Finish(absl::StatusOr<std::string> reply);
  // Takes the memory of a large reply, of about `bytes`, before it is made. Once, by whoever
  // finishes the call. RESOURCE_EXHAUSTED `MEMORY_SHORT`.
  absl::Status TakeReply(std::size_t bytes);
  // The same for a reply that is never refused, since something was written. `hold` is that of what
  // was read for it.
  void CountReply(MemoryBudget::Hold hold, std::size_t bytes);

  // The call turned out to be a write, and has a line in the audit log. By its handler.
  void Audit() { is_audited_ = true; }

  // Why the call must not go on: the server drains or lacks memory, the caller may not do this, or
  // its tenant has had its share. Before anything is read of the request.
  absl::Status Admit();
  // The same for a part of `whole`, which was admitted: the part has its caller. `takes_turn`: of
  // the rate of calls.
  absl::Status AdmitPart(const UnaryCall& whole, bool takes_turn);

  Method method() const { return method_; }
  // Whose memory the call is about, by its credential; `default` where authentication is off. Empty
  // until admitted.
  const std::string& tenant() const { return caller_.tenant; }
  // Who makes it; meaningless until admitted.
  const Caller& caller() const { return caller_; }
  // Null where the caller names none, and until admitted.
  const TracePtr& trace() const { return trace_; }
  const CallMetadata& metadata() const { return rpc_->metadata(); }
  // The session the call is about, empty when it is about none.
  virtual std::string_view session_id() const { return {}; }
  // Of the request, where that changes something of it.
  virtual std::string_view subject() const { return {}; }
  // The path of the namespace that the call is about, its names joined; empty for none.
  virtual std::string name_space() const { return {}; }
  // The caller's deadline, at most 30 seconds away.
  std::chrono::steady_clock::time_point deadline() const { return deadline_; }

  bool IsCancelled() const override { return rpc_->IsCancelled(); }

 protected:
  static bool HasUnknownFields(const google::protobuf::Message& message) {
    return !message.GetReflection()->GetUnknownFields(message).empty();
  }
  void NoteUnknownFields() { environment_.stats->UnknownFields(method_); }
  RpcCall& rpc() { return *rpc_; }
  const CallEnvironment& environment() const { return environment_; }
  // Sees to it that the reply may be sent, and calls Succeed() with it or Fail(); false: it may be
  // sent at once.
  virtual bool Confirm(std::string& /*reply*/) { return false; }

 private:
  // `reply`: of a call that succeeded.
  void End(const absl::Status& status, std::string reply);
  // For the metrics and the logs; the caller's id, which may be empty for a call that succeeded.
  std::string Count(const absl::Status& status, std::string_view reply);

  const CallEnvironment environment_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const RpcCallPtr rpc_;
  const Method method_;
  const bool admitted_;
  Caller caller_;
  TenantLimiter::Place place_;
  TracePtr trace_;
  const std::chrono::steady_clock::time_point deadline_;
  std::atomic<bool> finished_{false};
  MemoryBudget::Hold reply_hold_;
  bool is_audited_ = false;  // Set before another thread may finish the call.
};

// A call with its request, which lives in an arena.
template <typename Request>
class ParsedCall : public UnaryCall {
 public:
  using UnaryCall::UnaryCall;
  // Of a part of another request, which `rpc` keeps.
  ParsedCall(const CallEnvironment& environment, Method method, RpcCallPtr rpc, Request& request)
      : UnaryCall(environment, method, std::move(rpc)), request_(&request) {}

  absl::Status Parse(std::string_view bytes) {
    MEMORYD_ASSIGN_OR_RETURN(request_hold_, ParseRequest(this->rpc(), bytes, *request_));
    // A newer client's: ignored, and counted where they are likely.
    if (HasUnknown(*request_)) NoteUnknownFields();
    return absl::OkStatus();
  }

  // Takes `bytes` more for what is made of the request, for as long as the call lives. From the
  // thread that handles it. RESOURCE_EXHAUSTED `MEMORY_SHORT`.
  absl::Status TakeMore(std::int64_t bytes) { return request_hold_.Grow(bytes); }

  const Request& request() const { return *request_; }
  Request& mutable_request() { return *request_; }
  std::string_view session_id() const override {
    if constexpr (requires { request_->session_id(); }) return request_->session_id();
    return {};
  }
  std::string_view subject() const override {
    if constexpr (requires { request_->dry_run(); }) return request_->subject();
    return {};
  }
  std::string name_space() const override {
    std::string joined;
    if constexpr (requires { request_->namespace_(); }) {
      for (const std::string& name : request_->namespace_()) joined.append(name).push_back('/');
    }
    return joined;
  }

 private:
  static bool HasUnknown(const auto& message) {
    bool unknown = HasUnknownFields(message);
    if constexpr (requires { message.messages(); }) {
      for (const auto& inner : message.messages()) unknown |= HasUnknownFields(inner);
    }
    if constexpr (requires { message.puts(); }) {
      for (const auto& put : message.puts()) unknown |= HasUnknown(put);
    }
    return unknown;
  }

  MemoryBudget::Hold request_hold_;
  google::protobuf::Arena arena_;
  Request* const request_ = google::protobuf::Arena::CreateMessage<Request>(&arena_);
};

// Until when a read for the call is of use.
template <typename Call>
CallEnd EndOf(const std::shared_ptr<Call>& call) {
  return {call->deadline(), call};
}

// `status`, which where a request was too large names the fields of its type that may hold media:
// what has to be smaller.
absl::Status WithLargeFields(const absl::Status& status, const google::protobuf::Descriptor& type);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_UNARY_CALL_H_
