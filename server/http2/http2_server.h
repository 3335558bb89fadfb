// Listens, and serves gRPC over HTTP/2.
#ifndef MEMORYD_SERVER_HTTP2_HTTP2_SERVER_H_
#define MEMORYD_SERVER_HTTP2_HTTP2_SERVER_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "server/http2/http2_stats.h"
#include "server/http2/http2_times.h"
#include "server/settings/tls_files.h"
#include "server/wire/rpc_call.h"

namespace memoryd {

class Connection;
struct ConnectionParts;
using ConnectionMaker = std::function<std::shared_ptr<Connection>(ConnectionParts)>;

struct Http2ServerOptions {
  // HOST:PORT, port 0 for a free one; or unix:PATH, where a socket that nobody listens on is
  // replaced.
  std::vector<std::string> addresses;
  // For TCP addresses; null for plain text. UNIX sockets have none, since file permissions guard
  // them.
  const TlsFiles* tls = nullptr;
  mode_t unix_mode = 0600;
  int threads = 1;
  // Connections beyond are closed as they come.
  std::size_t max_connections = 4096;
  std::size_t max_connections_per_address = 2048;
  // For connections and callers without a tenant. Those of one address have half of it.
  std::int64_t unauthenticated_bytes = 128 << 20;
  std::size_t max_message_bytes = 4 << 20;
  std::chrono::seconds keepalive{30};
  // 0: connections may be as old as they like.
  std::chrono::seconds max_connection_age{0};
  std::chrono::seconds max_connection_age_grace{0};
  Http2Times times;
  // What its connections speak: gRPC over HTTP/2 where `make` is empty.
  ConnectionMaker make;
  // By its name in ALPN, which lives for ever. Who offers others is refused.
  const char* protocol = "h2";
};

// docs/adr/0052-own-front.md says why this is not gRPC's server.
class Http2Server {
 public:
  // Serves `methods` until Shutdown(). All that is pointed to outlives it. UNAVAILABLE in one line
  // that names the address when that can't be listened on.
  static absl::StatusOr<std::unique_ptr<Http2Server>> Start(Http2ServerOptions options,
                                                            const RpcMethods* methods,
                                                            MemoryBudget* budget);
  virtual ~Http2Server() = default;

  // As in the options, with the ports that were picked.
  virtual const std::vector<std::string>& addresses() const = 0;
  virtual const Http2Stats& stats() const = 0;
  // Bytes that callers without a tenant hold, by estimate.
  virtual std::int64_t unauthenticated_held() const = 0;

  // Accepts nothing more, tells all callers to go elsewhere, and closes connections when their
  // calls have ended, at `deadline` at the latest. Calls that go on then do so for nobody.
  virtual void Shutdown(std::chrono::steady_clock::time_point deadline) = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_HTTP2_SERVER_H_
