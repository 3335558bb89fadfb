// Options of a Client and of its calls.
#ifndef MEMORYD_OPTIONS_H_
#define MEMORYD_OPTIONS_H_

#include <absl/time/time.h>
#include <grpcpp/security/credentials.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace memoryd::client {

// The trace that a call belongs to: the headers of W3C Trace Context.
struct Trace {
  std::string traceparent;  // Empty: no trace.
  std::string tracestate;
};

struct Options {
  // A gRPC address, such as `localhost:50051` or `unix:/run/memoryd.sock`.
  std::string target = "localhost:50051";
  // The longest time that a call may take, including its repetitions. A Put may take its `wait`
  // longer. CallOptions::timeout replaces it.
  absl::Duration timeout = absl::Seconds(10);
  // Whether a call waits until its deadline for a server that cannot be reached. If false, the call
  // fails at once and is not repeated.
  bool wait_for_ready = true;
  // Whether gRPC uses the proxy of the environment variables `http_proxy` and `no_proxy`.
  bool use_proxy = false;
  // The channel credentials, such as grpc::SslCredentials({.pem_root_certs = ...}) for TLS. Null:
  // plain text, which memoryd by default serves on loopback and UNIX sockets only.
  std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;
  // Returns the bearer token. Called for every attempt, so the token may be rotated, and from any
  // thread. Null: no token.
  std::function<std::string()> token = nullptr;
  // Returns the trace that a call belongs to. Called for every attempt, on the caller's thread.
  // Null: no trace.
  std::function<Trace()> trace = nullptr;
};

// Options of a single call.
struct CallOptions {
  // Replaces Options::timeout. For a Put it includes the `wait`.
  std::optional<absl::Duration> timeout = std::nullopt;
};

}  // namespace memoryd::client

#endif  // MEMORYD_OPTIONS_H_
