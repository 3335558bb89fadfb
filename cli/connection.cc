#include "cli/connection.h"

#include <fmt/format.h>
#include <grpc/support/log.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/version_info.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/call_error.h"
#include "cli/listener.h"
#include "cli/waiting_line.h"
#include "core/base/error.h"
#include "core/base/secret_file.h"
#include "core/base/status_macros.h"

namespace memoryd::cli {
namespace {

// A reply may be as large as the server makes one.
constexpr int kLargestReply = 80 * 1024 * 1024;

absl::Status BadOption(std::string_view option, std::string_view message) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", option, message));
}

// The content of a file that an option names, empty without one.
absl::StatusOr<std::string> ReadFileOf(std::string_view option, const std::string& path,
                                       absl::StatusOr<std::string> (*read)(const std::string&)) {
  if (path.empty()) return std::string();
  absl::StatusOr<std::string> content = read(path);
  if (!content.ok()) return BadOption(option, std::string(content.status().message()));
  return content;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(
    const ConnectionOptions& options) {
  if (options.client_cert_file.empty() != options.client_key_file.empty()) {
    return options.client_cert_file.empty()
               ? BadOption("--client-key-file", "needs --client-cert-file beside it")
               : BadOption("--client-cert-file", "needs --client-key-file beside it");
  }
  // A server has no TLS on UNIX sockets.
  if (options.ca_file.empty() || options.target.starts_with("unix:")) {
    return grpc::InsecureChannelCredentials();
  }
  grpc::SslCredentialsOptions ssl;
  MEMORYD_ASSIGN_OR_RETURN(ssl.pem_root_certs,
                           ReadFileOf("--ca-file", options.ca_file, &ReadPublicFile));
  MEMORYD_ASSIGN_OR_RETURN(
      ssl.pem_cert_chain,
      ReadFileOf("--client-cert-file", options.client_cert_file, &ReadPublicFile));
  MEMORYD_ASSIGN_OR_RETURN(
      ssl.pem_private_key,
      ReadFileOf("--client-key-file", options.client_key_file, &ReadSecretFile));
  return grpc::SslCredentials(ssl);
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  MEMORYD_ASSIGN_OR_RETURN(std::string token, ReadFileOf("--token-file", path, &ReadSecretFile));
  token.erase(token.find_last_not_of(" \t\r\n") + 1);
  // gRPC ends the process where a header holds anything else.
  for (const char c : token) {
    if (c < 0x20 || c > 0x7e) return BadOption("--token-file", "a token is visible ASCII");
  }
  return token;
}

// Standard error is for one line, and that is this program's.
void SilenceGrpcLog() {
#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 66
  gpr_set_log_function([](gpr_log_func_args*) {});
#endif
}

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const ConnectionOptions& options) {
  SilenceGrpcLog();
  MEMORYD_ASSIGN_OR_RETURN(auto credentials, MakeCredentials(options));
  MEMORYD_RETURN_IF_ERROR(ReadToken(options.token_file).status());
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kLargestReply);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  // That an attempt has, where a firewall says nothing.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // The environment's proxy is for the web, not for a server beside an agent.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  auto channel = grpc::CreateCustomChannel(options.target, credentials, arguments);
  return std::unique_ptr<Connection>(new Connection(options, std::move(channel)));
}

Connection::Connection(const ConnectionOptions& options, std::shared_ptr<grpc::Channel> channel)
    : target_(options.target),
      token_file_(options.token_file),
      timeout_(options.timeout_s),
      channel_(std::move(channel)) {}

absl::Status Connection::Prepare(grpc::ClientContext& context,
                                 std::chrono::milliseconds more) const {
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::microseconds>(timeout_ + more));
  context.set_wait_for_ready(wait_for_server_);
  // Anew for each call, since it may be replaced while an export runs.
  MEMORYD_ASSIGN_OR_RETURN(const std::string token, ReadToken(token_file_));
  if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
  return absl::OkStatus();
}

absl::Status Connection::StatusOf(const grpc::Status& status) const {
  absl::Status said = FromGrpcStatus(status);
  // A server's own words stay.
  if (!absl::IsUnavailable(said) || !ErrorReason(said).empty() || !NothingListens(target_)) {
    return said;
  }
  return absl::UnavailableError(
      fmt::format("nothing listens on {}: is memoryd running? (memoryd dev)", target_));
}

absl::Status Connection::StreamAll(
    const v1::StreamAllRequest& request,
    const std::function<absl::Status(const v1::StreamAllResponse&)>& read) {
  grpc::ClientContext context;
  MEMORYD_RETURN_IF_ERROR(Prepare(context));
  v1::MemoryService::Stub stub(channel_);
  const auto stream = stub.StreamAll(&context, request);
  v1::StreamAllResponse page;
  const auto next = [&] {
    const WaitingLine waiting(target_);
    return stream->Read(&page);
  };
  while (next()) {
    if (absl::Status status = read(page); !status.ok()) {
      context.TryCancel();
      stream->Finish();
      return status;
    }
  }
  return StatusOf(stream->Finish());
}

absl::Status Connection::WatchSession(
    const v1::WatchSessionRequest& request,
    const std::function<absl::Status(const v1::WatchSessionResponse&)>& read) {
  grpc::ClientContext context;
  MEMORYD_RETURN_IF_ERROR(PrepareEndless(context));
  v1::SessionService::Stub stub(channel_);
  const auto stream = stub.WatchSession(&context, request);
  v1::WatchSessionResponse news;
  while (stream->Read(&news)) {
    if (absl::Status status = read(news); !status.ok()) {
      context.TryCancel();
      stream->Finish();
      return status;
    }
  }
  return StatusOf(stream->Finish());
}

absl::Status Connection::PrepareEndless(grpc::ClientContext& context) const {
  MEMORYD_RETURN_IF_ERROR(Prepare(context));
  context.set_deadline(gpr_inf_future(GPR_CLOCK_REALTIME));
  return absl::OkStatus();
}

}  // namespace memoryd::cli
