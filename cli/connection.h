// Calls of a running server, one after the other.
#ifndef MEMORYD_CLI_CONNECTION_H_
#define MEMORYD_CLI_CONNECTION_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

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

// One ImportSession under way. Not thread-safe.
class ImportCall {
 public:
  using StatusOf = std::function<absl::Status(const grpc::Status&)>;

  // Prepares a call of `target` on `channel` within `context`. `status_of` says how it failed.
  ImportCall(const std::shared_ptr<grpc::Channel>& channel, std::string target,
             std::unique_ptr<grpc::ClientContext> context, StatusOf status_of)
      : target_(std::move(target)),
        status_of_(std::move(status_of)),
        context_(std::move(context)),
        stub_(channel),
        stream_(stub_.ImportSession(context_.get(), &response_)) {}

  // Once the call has ended it sends nothing: Finish() tells why.
  void Send(const v1::ImportSessionRequest& request) {
    const WaitingLine waiting(target_);
    if (open_) open_ = stream_->Write(request);
  }
  // Once.
  absl::StatusOr<v1::ImportSessionResponse> Finish();

 private:
  const std::string target_;
  const StatusOf status_of_;
  const std::unique_ptr<grpc::ClientContext> context_;
  v1::SessionService::Stub stub_;
  v1::ImportSessionResponse response_;
  const std::unique_ptr<grpc::ClientWriter<v1::ImportSessionRequest>> stream_;
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

  // Has all the time that it needs. The connection outlives it.
  absl::StatusOr<std::unique_ptr<ImportCall>> BeginImport();

  // Whether a call waits for a server that can't be reached, until its time is over, rather than
  // fails at once.
  void WaitForServer(bool wait) { wait_for_server_ = wait; }

 private:
  Connection(const ConnectionOptions& options, std::shared_ptr<grpc::Channel> channel);

  absl::Status Prepare(grpc::ClientContext& context, std::chrono::milliseconds more = {}) const;
  absl::Status StatusOf(const grpc::Status& status) const;

  const std::string target_;
  const std::string token_file_;
  const std::chrono::duration<double> timeout_;
  const std::shared_ptr<grpc::Channel> channel_;
  bool wait_for_server_ = false;
};

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_CONNECTION_H_
