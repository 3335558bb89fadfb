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
#include <utility>

#include "absl/status/status.h"
#include "server/calls_in_flight.h"

namespace memoryd {

// Finishes the call once; what comes later is dropped. Lives until the last reference goes, which
// may be after gRPC's own objects went.
class UnaryCall {
 public:
  // `calls` must outlive the server.
  UnaryCall(CallsInFlight* calls, grpc::CallbackServerContext* context, grpc::ByteBuffer* response);
  virtual ~UnaryCall() = default;
  UnaryCall(const UnaryCall&) = delete;
  UnaryCall& operator=(const UnaryCall&) = delete;

  // Any thread.
  void Succeed(std::string reply);
  void Fail(const absl::Status& status);

  // False while the server drains: fail the call with Draining().
  bool admitted() const { return admitted_; }
  static absl::Status Draining();

  grpc::ServerUnaryReactor* reactor() const { return reactor_; }
  // The caller's deadline, at most 30 seconds away.
  std::chrono::steady_clock::time_point deadline() const { return deadline_; }

 protected:
  // INVALID_ARGUMENT that names the field where that is known.
  static absl::Status Parse(const grpc::ByteBuffer& bytes, google::protobuf::Message& message);

 private:
  void Finish(const grpc::Status& status);

  CallsInFlight* const calls_;
  const bool admitted_;
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

  absl::Status ParseRequest(const grpc::ByteBuffer& bytes) { return Parse(bytes, *request_); }

  const Request& request() const { return *request_; }
  Request& mutable_request() { return *request_; }

 private:
  google::protobuf::Arena arena_;
  Request* const request_ = google::protobuf::Arena::CreateMessage<Request>(&arena_);
};

// Parses and hands the call to `handler(std::shared_ptr<ParsedCall<Request>>) -> absl::Status`. A
// handler that returns an error, or throws, has finished the call with it; one that returns OK
// finishes it itself, now or later. Handlers must not block.
template <typename Request, typename Handler>
grpc::ServerUnaryReactor* RunUnary(CallsInFlight& calls, grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request, grpc::ByteBuffer* response,
                                   Handler handler) {
  auto call = std::make_shared<ParsedCall<Request>>(&calls, context, response);
  grpc::ServerUnaryReactor* const reactor = call->reactor();
  absl::Status status;
  try {
    status = call->admitted() ? call->ParseRequest(*request) : UnaryCall::Draining();
    if (status.ok()) status = handler(call);
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
