// The port that speaks the Connect protocol over HTTP/1.1.
#ifndef MEMORYD_SERVER_HTTP_HTTP_SERVER_H_
#define MEMORYD_SERVER_HTTP_HTTP_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "server/http2/http2_server.h"
#include "server/wire/rpc_call.h"

namespace memoryd {

struct HttpServerOptions {
  // As of gRPC's port; what is told of HTTP/2 alone is left aside.
  Http2ServerOptions listener;
  // What `/readyz` says. Any thread.
  std::function<bool()> is_ready;
  // Whether only requests to this machine by name are answered; for a server without credentials.
  bool only_loopback_hosts = true;
  // Other sites whose pages may call, as browsers write them: `https://app.example`.
  std::vector<std::string> allowed_origins;
  // Paths of the methods that are served. Empty: those of kMethods.
  std::vector<std::string> paths;
  // Whether calls have all headers of their requests.
  bool keeps_headers = false;
};

// Serves `methods` until its Shutdown(): docs/adr/0066-http-port.md.
// All that is pointed to outlives it. Errors as of Http2Server::Start().
absl::StatusOr<std::unique_ptr<Http2Server>> StartHttpServer(HttpServerOptions options,
                                                             const RpcMethods* methods,
                                                             MemoryBudget* budget);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP_HTTP_SERVER_H_
