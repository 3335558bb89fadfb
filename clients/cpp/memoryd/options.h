// What a Client is made with.
#ifndef MEMORYD_OPTIONS_H_
#define MEMORYD_OPTIONS_H_

#include <absl/time/time.h>
#include <grpcpp/security/credentials.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace memoryd::client {

// The trace that a call belongs to, as the headers of W3C Trace Context.
struct Trace {
  std::string traceparent;  // Empty: none.
  std::string tracestate;
};

struct Options {
  // A gRPC address, such as `localhost:50051` or `unix:/run/memoryd.sock`.
  std::string target = "localhost:50051";
  // How long a call may take, its repetitions included, where the call does not say; behind the
  // `wait` of a Put.
  absl::Duration timeout = absl::Seconds(10);
  // Whether a call waits for a server that can't be reached, until its deadline.
  bool wait_for_ready = true;
  // Whether gRPC reaches the server by the proxy of the environment's `http_proxy` and `no_proxy`.
  bool use_proxy = false;
  // None: plain text, which memoryd serves on loopback and UNIX sockets only. TLS:
  // grpc::SslCredentials({.pem_root_certs = ...}).
  std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;
  // Returns the bearer token; asked at every attempt, so that it may be rotated, and from any
  // thread. None: no token.
  std::function<std::string()> token = nullptr;
  // Returns the trace that a call belongs to; asked at every attempt, on the thread of the caller.
  // None: no trace.
  std::function<Trace()> trace = nullptr;
};

// What a single call may want otherwise.
struct CallOptions {
  std::optional<absl::Duration> timeout = std::nullopt;
};

}  // namespace memoryd::client

#endif  // MEMORYD_OPTIONS_H_
