// One unary call on gRPC's raw callback API.
//
// Raw, since the generated callback handlers answer UNIMPLEMENTED to malformed bytes, which clients
// read as "no such method"; and since a reply of stored messages is written as bytes, not built
// message by message.
#ifndef MEMORYD_SERVER_UNARY_CALL_H_
#define MEMORYD_SERVER_UNARY_CALL_H_

#include <google/protobuf/arena.h>
#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/failpoint.h"
#include "core/model/trace_context.h"
#include "server/audit_log.h"
#include "server/authenticator.h"
#include "server/call_log.h"
#include "server/call_stats.h"
#include "server/calls_in_flight.h"
#include "server/memory_watch.h"
#include "server/method.h"
#include "server/span_exporter.h"
#include "server/tenant_limiter.h"

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
};

// Who makes the call, by its credential; of the tenant `default`, with all rights, where
// authentication is off. RESOURCE_EXHAUSTED `METADATA_TOO_LARGE` before that is looked for.
absl::StatusOr<Caller> CallerOf(const CallEnvironment& environment,
                                grpc::CallbackServerContext& context);

// Whether that caller has the right that the method needs.
absl::Status Authorize(const CallEnvironment& environment, const Caller& caller, Method method);

// The first value the caller sent under `name`, empty for none.
std::string_view CallMetadata(const grpc::CallbackServerContext& context, const char* name);

// The call's trace, with a span of its own; null where the caller names none.
TracePtr TraceOf(const grpc::CallbackServerContext& context);

// Exports the span of a call that has ended, where that is wanted of it. `trace`: null for none.
void ExportSpan(const CallEnvironment& environment, Method method, const TracePtr& trace,
                const absl::Status& status, std::chrono::steady_clock::duration took);

// Finishes the call once, counts it and logs it; what comes later is dropped. A call that fails
// gets trailing metadata `x-request-id`: what the caller sent under that name, else a new id. Lives
// until the last reference goes, which may be after gRPC's own objects went.
class UnaryCall {
 public:
  UnaryCall(const CallEnvironment& environment, Method method, grpc::CallbackServerContext* context,
            grpc::ByteBuffer* response);
  // A call that nobody has finished, since an exception came in the way, ends INTERNAL.
  virtual ~UnaryCall();
  UnaryCall(const UnaryCall&) = delete;
  UnaryCall& operator=(const UnaryCall&) = delete;

  // Any thread.
  void Succeed(std::string reply);
  void Fail(const absl::Status& status);
  void Finish(absl::StatusOr<std::string> reply);

  // Why the call must not go on: the server drains or lacks memory, the caller may not do this, or
  // its tenant has had its share. Before anything is read of the request.
  absl::Status Admit();

  Method method() const { return method_; }
  // Whose memory the call is about, by its credential; `default` where authentication is off. Empty
  // until admitted.
  const std::string& tenant() const { return caller_.tenant; }
  // Who makes it; meaningless until admitted.
  const Caller& caller() const { return caller_; }
  // Null where the caller names none, and until admitted.
  const TracePtr& trace() const { return trace_; }
  // The session the call is about, empty when it is about none.
  virtual std::string_view session_id() const { return {}; }
  // Of the request, where that changes something of it.
  virtual std::string_view subject() const { return {}; }
  grpc::ServerUnaryReactor* reactor() const { return reactor_; }
  // The caller's deadline, at most 30 seconds away.
  std::chrono::steady_clock::time_point deadline() const { return deadline_; }

  // INVALID_ARGUMENT that names the field where that is known.
  static absl::Status Parse(const grpc::ByteBuffer& bytes, google::protobuf::Message& message);

 protected:
  static bool HasUnknownFields(const google::protobuf::Message& message) {
    return !message.GetReflection()->GetUnknownFields(message).empty();
  }
  void NoteUnknownFields() { environment_.stats->UnknownFields(method_); }

 private:
  // `reply`: of a call that succeeded.
  void End(const absl::Status& status, std::string_view reply);
  // For the metrics and the logs, and the caller's id.
  void Count(const absl::Status& status, std::string_view reply);

  const CallEnvironment environment_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  grpc::CallbackServerContext* const context_;
  const Method method_;
  const bool admitted_;
  Caller caller_;
  TenantLimiter::Place place_;
  TracePtr trace_;
  grpc::ByteBuffer* const response_;
  grpc::ServerUnaryReactor* const reactor_;
  const std::chrono::steady_clock::time_point deadline_;
  std::atomic<bool> finished_{false};
};

// A call with its request, which lives in an arena.
template <typename Request>
class ParsedCall : public UnaryCall {
 public:
  using UnaryCall::UnaryCall;

  absl::Status ParseRequest(const grpc::ByteBuffer& bytes) {
    absl::Status status = Parse(bytes, *request_);
    // A newer client's: ignored, and counted where they are likely.
    bool unknown = HasUnknownFields(*request_);
    if constexpr (requires { request_->messages(); }) {
      for (const auto& message : request_->messages()) unknown |= HasUnknownFields(message);
    }
    if (status.ok() && unknown) NoteUnknownFields();
    return status;
  }

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

 private:
  google::protobuf::Arena arena_;
  Request* const request_ = google::protobuf::Arena::CreateMessage<Request>(&arena_);
};

// Parses and hands the call to `handler(std::shared_ptr<ParsedCall<Request>>) -> absl::Status`. A
// handler that returns an error, or throws, has finished the call with it; one that returns OK
// finishes it itself, now or later. Handlers must not block.
template <typename Request, typename Handler>
grpc::ServerUnaryReactor* RunUnary(const CallEnvironment& environment, Method method,
                                   grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request, grpc::ByteBuffer* response,
                                   Handler handler) {
  auto call = std::make_shared<ParsedCall<Request>>(environment, method, context, response);
  grpc::ServerUnaryReactor* const reactor = call->reactor();
  absl::Status status;
  try {
    status = call->Admit();
    if (status.ok()) status = call->ParseRequest(*request);
    if (status.ok()) {
      ReachFailpoint("request_parsed");
      status = handler(call);
    }
  } catch (const std::exception& error) {
    status = absl::InternalError(std::string("a handler threw: ").append(error.what()));
  }
  if (!status.ok()) call->Fail(status);
  return reactor;
}

// Keeps protobuf's complaints about bad input out of standard error, and learns from them which
// field was bad. Call once, before the first request.
void CaptureProtobufLog();

}  // namespace memoryd

#endif  // MEMORYD_SERVER_UNARY_CALL_H_
