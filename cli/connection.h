// Calls of a running server, one after the other.
#ifndef MEMORYD_CLI_CONNECTION_H_
#define MEMORYD_CLI_CONNECTION_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/call_error.h"
#include "cli/target.h"
#include "cli/waiting_line.h"
#include "core/base/status_macros.h"
#include "memoryd/v1/memory_service.grpc.pb.h"
#include "memoryd/v1/session_service.grpc.pb.h"

namespace memoryd::cli {

struct ConnectionOptions {
  std::string target = kDefaultTarget;
  std::string token_file;        // Empty: no token.
  std::string ca_file;           // Empty: plain text.
  std::string client_cert_file;  // Empty: no certificate of one's own.
  std::string client_key_file;
  double timeout_s = 10;  // Of a call.
};

// One import under way: a stream of requests, and one reply. Not thread-safe.
template <typename Request, typename Response>
class ImportCall {
 public:
  using StatusOf = std::function<absl::Status(const grpc::Status&)>;

  // Begins `method` of `target` on `channel` within `context`. `status_of` says how it failed.
  template <typename Stub>
  ImportCall(std::unique_ptr<grpc::ClientWriter<Request>> (Stub::*method)(grpc::ClientContext*,
                                                                          Response*),
             const std::shared_ptr<grpc::Channel>& channel, std::string target,
             std::unique_ptr<grpc::ClientContext> context, StatusOf status_of)
      : target_(std::move(target)),
        status_of_(std::move(status_of)),
        context_(std::move(context)),
        stream_((Stub(channel).*method)(context_.get(), &response_)) {}

  // Once the call has ended it sends nothing: Finish() tells why.
  void Send(const Request& request) {
    const WaitingLine waiting(target_);
    if (open_) open_ = stream_->Write(request);
  }

  // Once.
  absl::StatusOr<Response> Finish() {
    const WaitingLine waiting(target_);
    if (open_) stream_->WritesDone();
    absl::Status status = status_of_(stream_->Finish());
    if (!status.ok()) return status;
    return std::move(response_);
  }

 private:
  const std::string target_;
  const StatusOf status_of_;
  const std::unique_ptr<grpc::ClientContext> context_;
  Response response_;
  const std::unique_ptr<grpc::ClientWriter<Request>> stream_;
  bool open_ = true;
};

class Connection {
 public:
  // Reads the files; the server is dialled by the first call. INVALID_ARGUMENT names the option.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const ConnectionOptions& options);

  // Such as Call(&v1::SessionService::Stub::GetSession, request). Errors as FromGrpcStatus, but
  // UNAVAILABLE in words where nothing listens. One that takes its time is told on a terminal.
  // `more`: what it may take beside the timeout, where the server is asked to wait.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const Request& request, std::chrono::milliseconds more = {}) {
    grpc::ClientContext context;
    MEMORYD_RETURN_IF_ERROR(Prepare(context, more));
    Stub stub(channel_);
    Response response;
    absl::Status status;
    {
      const WaitingLine waiting(target_);
      status = StatusOf((stub.*method)(&context, request, &response));
    }
    if (!status.ok()) return status;
    return response;
  }

  // Gives each page to `read` until it fails; that is the error then.
  absl::Status StreamAll(const v1::StreamAllRequest& request,
                         const std::function<absl::Status(const v1::StreamAllResponse&)>& read);

  // Gives each reply to `read` until the session is deleted, or it fails; that is the error then.
  // Has all the time that it needs.
  absl::Status WatchSession(
      const v1::WatchSessionRequest& request,
      const std::function<absl::Status(const v1::WatchSessionResponse&)>& read);

  // Such as BeginImport(&v1::SessionService::Stub::ImportSession). Has all the time that it needs.
  // The connection outlives it.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<std::unique_ptr<ImportCall<Request, Response>>> BeginImport(
      std::unique_ptr<grpc::ClientWriter<Request>> (Stub::*method)(grpc::ClientContext*,
                                                                   Response*)) {
    auto context = std::make_unique<grpc::ClientContext>();
    MEMORYD_RETURN_IF_ERROR(PrepareEndless(*context));
    return std::make_unique<ImportCall<Request, Response>>(
        method, channel_, target_, std::move(context),
        [this](const grpc::Status& status) { return StatusOf(status); });
  }

  // Whether a call waits for a server that can't be reached, until its time is over, rather than
  // fails at once.
  void WaitForServer(bool wait) { wait_for_server_ = wait; }

 private:
  Connection(const ConnectionOptions& options, std::shared_ptr<grpc::Channel> channel);

  absl::Status Prepare(grpc::ClientContext& context, std::chrono::milliseconds more = {}) const;
  // The context of a call that has no deadline.
  absl::Status PrepareEndless(grpc::ClientContext& context) const;
  absl::Status StatusOf(const grpc::Status& status) const;

  const std::string target_;
  const std::string token_file_;
  const std::chrono::duration<double> timeout_;
  const std::shared_ptr<grpc::Channel> channel_;
  bool wait_for_server_ = false;
};

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_CONNECTION_H_
