#include "server/unary_call.h"

#include <fmt/format.h>
#include <google/protobuf/stubs/common.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <iterator>

#include "absl/cleanup/cleanup.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "server/grpc_status.h"
#include "server/limits.h"
#include "server/listener_credentials.h"

namespace memoryd {
namespace {

std::chrono::steady_clock::time_point DeadlineOf(const grpc::CallbackServerContext& context) {
  // In gRPC's own form, which has deadlines that std::chrono's nanoseconds don't reach.
  const gpr_timespec now = gpr_now(GPR_CLOCK_MONOTONIC);
  const gpr_timespec latest =
      gpr_time_add(now, gpr_time_from_seconds(kMaxDeadline.count(), GPR_TIMESPAN));
  const gpr_timespec capped =
      gpr_time_min(gpr_convert_clock_type(context.raw_deadline(), GPR_CLOCK_MONOTONIC), latest);
  const gpr_timespec left = gpr_time_max(gpr_time_sub(capped, now), gpr_time_0(GPR_TIMESPAN));
  return std::chrono::steady_clock::now() + std::chrono::seconds(left.tv_sec) +
         std::chrono::nanoseconds(left.tv_nsec);
}

absl::Status CheckMetadata(const grpc::CallbackServerContext& context, bool authenticates) {
  constexpr std::size_t kEntryOverhead = 32;  // RFC 9113, section 6.5.2.
  const auto& metadata = context.client_metadata();
  std::size_t bytes = metadata.size() * kEntryOverhead;
  for (const auto& [name, value] : metadata) {
    bytes += name.size();
    // A token that is too large is a wrong one, which the authenticator says.
    if (!authenticates || name != "authorization") bytes += value.size();
  }
  if (metadata.size() <= kMaxMetadataEntries && bytes <= kMaxMetadataBytes) return absl::OkStatus();
  return Error(
      absl::StatusCode::kResourceExhausted, "METADATA_TOO_LARGE",
      fmt::format("a call may bring {} entries of metadata and {} bytes; nothing was started",
                  kMaxMetadataEntries, kMaxMetadataBytes));
}

// The last complaint of protobuf's parser on this thread.
thread_local std::string parse_complaint;

// "String field 'memoryd.v1.PutRequest.session_id' contains invalid UTF-8 data …" -> "session_id".
std::string FieldOfComplaint() {
  const std::size_t begin = parse_complaint.find('\'');
  const std::size_t end = parse_complaint.find('\'', begin + 1);
  if (begin == std::string::npos || end == std::string::npos) return {};
  const std::string name = parse_complaint.substr(begin + 1, end - begin - 1);
  return name.substr(name.rfind('.') + 1);
}

}  // namespace

void CaptureProtobufLog() {
#if GOOGLE_PROTOBUF_VERSION < 4022000
  google::protobuf::SetLogHandler([](google::protobuf::LogLevel, const char*, int,
                                     const std::string& message) { parse_complaint = message; });
#endif
}

UnaryCall::UnaryCall(const CallEnvironment& environment, Method method,
                     grpc::CallbackServerContext* context, grpc::ByteBuffer* response)
    : environment_(environment),
      context_(context),
      method_(method),
      admitted_(environment.calls->Enter()),
      response_(response),
      reactor_(context->DefaultReactor()),
      deadline_(DeadlineOf(*context)) {
  if (!admitted_) environment_.stats->RefusedDraining();
}

UnaryCall::~UnaryCall() {
  if (!finished_.exchange(true)) End(absl::InternalError("the call was dropped unfinished"), {});
}

absl::Status UnaryCall::Parse(const grpc::ByteBuffer& bytes, google::protobuf::Message& message) {
  parse_complaint.clear();
  // The reader wants a mutable buffer but only reads; a body cut short leaves no buffer at all.
  if (bytes.Valid()) {
    grpc::ProtoBufferReader reader(const_cast<grpc::ByteBuffer*>(&bytes));
    if (message.ParseFromZeroCopyStream(&reader) && reader.status().ok()) {
      return absl::OkStatus();
    }
  }
  if (const std::string field = FieldOfComplaint(); !field.empty()) {
    return InvalidField(field, "is not valid UTF-8");
  }
  return Error(absl::StatusCode::kInvalidArgument, "MALFORMED_REQUEST",
               "the request is not a valid protobuf message of this method");
}

absl::Status UnaryCall::Admit() {
  if (!admitted_) {
    return Error(absl::StatusCode::kUnavailable, "DRAINING",
                 "the server is going away; nothing was started, try another or try again");
  }
  MEMORYD_ASSIGN_OR_RETURN(caller_, CallerOf(environment_, *context_));
  trace_ = TraceOf(*context_);
  MEMORYD_RETURN_IF_ERROR(Authorize(environment_, caller_, method_));
  if (environment_.memory != nullptr && TraitsOf(method_).takes_memory) {
    MEMORYD_RETURN_IF_ERROR(environment_.memory->Admit());
  }
  MEMORYD_ASSIGN_OR_RETURN(place_, environment_.tenants->Enter(tenant()));
  return absl::OkStatus();
}

void UnaryCall::Succeed(std::string reply) {
  // Given away, not copied.
  auto kept = std::make_unique<std::string>(std::move(reply));
  if (finished_.exchange(true)) return;
  const std::string_view bytes = *kept;
  const grpc::Slice slice(
      kept->data(), kept->size(), [](void* owned) { delete static_cast<std::string*>(owned); },
      kept.get());
  static_cast<void>(kept.release());  // The slice's.
  *response_ = grpc::ByteBuffer(&slice, 1);
  End(absl::OkStatus(), bytes);
}

void UnaryCall::Fail(const absl::Status& status) {
  if (finished_.exchange(true)) return;
  End(status, {});
}

void UnaryCall::Finish(absl::StatusOr<std::string> reply) {
  if (reply.ok()) {
    Succeed(*std::move(reply));
  } else {
    Fail(reply.status());
  }
}

void UnaryCall::End(const absl::Status& status, std::string_view reply) {
  const absl::Cleanup leave = [this] {
    if (admitted_) environment_.calls->Leave();
  };
  grpc::Status answer;
  try {
    Count(status, reply);
    ReachFailpoint("reply_ready");
    answer = ToGrpcStatus(status);
  } catch (...) {
    // Whoever waits must not wait for ever.
    answer = grpc::Status(grpc::StatusCode::INTERNAL, "internal error");
  }
  place_ = {};
  reactor_->Finish(answer);
  ReachFailpoint("reply_given");
}

void UnaryCall::Count(const absl::Status& status, std::string_view reply) {
  const auto took = std::chrono::steady_clock::now() - start_;
  environment_.stats->Ended(method_, status.code(), took);
  ExportSpan(environment_, method_, trace_, status, took);
  const bool logged = environment_.log->Wants(status.code());
  const bool audited = environment_.audit != nullptr && AuditLog::Wants(method_);
  if (logged || audited || !status.ok()) {
    const std::string request_id = RequestId(CallMetadata(*context_, "x-request-id"));
    const std::string_view trace_id = TraceId(CallMetadata(*context_, "traceparent"));
    if (!status.ok()) context_->AddTrailingMetadata("x-request-id", request_id);
    if (logged) {
      environment_.log->Write(
          {method_, status, took, request_id, trace_id, tenant(), session_id(), trace_.get()});
    }
    if (audited) {
      environment_.audit->Write({method_, status, request_id, trace_id, tenant(), caller_.principal,
                                 session_id(), subject(), reply});
    }
  }
}

absl::StatusOr<Caller> CallerOf(const CallEnvironment& environment,
                                grpc::CallbackServerContext& context) {
  if (absl::Status status = CheckMetadata(context, environment.authenticator != nullptr);
      !status.ok()) {
    environment.stats->RefusedMetadata();
    return status;
  }
  if (environment.authenticator == nullptr) return Caller{"default", {}, Rights::All(), {}};
  auto caller = AuthenticateCall(*environment.authenticator, context);
  if (!caller.ok()) environment.stats->AuthFailed(ErrorReason(caller.status()));
  return caller;
}

absl::Status Authorize(const CallEnvironment& environment, const Caller& caller, Method method) {
  absl::Status status = CheckRight(caller, TraitsOf(method).right);
  if (!status.ok()) environment.stats->AuthFailed(ErrorReason(status));
  return status;
}

std::string_view CallMetadata(const grpc::CallbackServerContext& context, const char* name) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.lower_bound(name);
  if (found == metadata.end() || found->first != name) return {};
  return {found->second.data(), found->second.size()};
}

TracePtr TraceOf(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.lower_bound("traceparent");
  if (found == metadata.end() || found->first != "traceparent") return nullptr;
  // Of two nobody knows which is meant.
  if (const auto next = std::next(found); next != metadata.end() && next->first == found->first) {
    return nullptr;
  }
  const auto caller = ParseTraceparent({found->second.data(), found->second.size()});
  if (!caller.has_value()) return nullptr;
  std::string state;
  for (auto [value, end] = metadata.equal_range("tracestate"); value != end; ++value) {
    if (!state.empty()) state += ',';
    state.append(value->second.data(), value->second.size());
  }
  return MakeTrace(*caller, state);
}

void ExportSpan(const CallEnvironment& environment, Method method, const TracePtr& trace,
                const absl::Status& status, std::chrono::steady_clock::duration took) {
  if (environment.spans == nullptr || !SpanExporter::Wants(trace)) return;
  environment.spans->Export({method, trace, status.code(), took});
}

}  // namespace memoryd
