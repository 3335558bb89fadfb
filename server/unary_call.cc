#include "server/unary_call.h"

#include <google/protobuf/stubs/common.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "core/base/error.h"
#include "server/grpc_status.h"

namespace memoryd {
namespace {

constexpr std::chrono::seconds kMaxDeadline(30);

std::chrono::steady_clock::time_point DeadlineOf(const grpc::CallbackServerContext& context) {
  // gRPC's deadline is on the system clock and may be infinitely far in either direction.
  const auto left = context.deadline() - std::chrono::system_clock::now();
  const auto capped = std::clamp<std::chrono::system_clock::duration>(
      left, std::chrono::system_clock::duration::zero(), kMaxDeadline);
  return std::chrono::steady_clock::now() + capped;
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

UnaryCall::UnaryCall(CallsInFlight* calls, grpc::CallbackServerContext* context,
                     grpc::ByteBuffer* response)
    : calls_(calls),
      admitted_(calls->Enter()),
      response_(response),
      reactor_(context->DefaultReactor()),
      deadline_(DeadlineOf(*context)) {}

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

absl::Status UnaryCall::Draining() {
  return Error(absl::StatusCode::kUnavailable, "DRAINING",
               "the server is going away; nothing was started, try another or try again");
}

void UnaryCall::Succeed(std::string reply) {
  if (finished_.exchange(true)) return;
  const grpc::Slice slice(reply);
  *response_ = grpc::ByteBuffer(&slice, 1);
  Finish(grpc::Status::OK);
}

void UnaryCall::Fail(const absl::Status& status) {
  if (finished_.exchange(true)) return;
  // The caller learns no more than that it happened.
  if (absl::IsInternal(status) || absl::IsUnknown(status) || absl::IsDataLoss(status)) {
    spdlog::error("a call failed: {}", status.ToString());
  }
  Finish(ToGrpcStatus(status));
}

void UnaryCall::Finish(const grpc::Status& status) {
  reactor_->Finish(status);
  if (admitted_) calls_->Leave();
}

}  // namespace memoryd
