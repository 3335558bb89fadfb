#include "server/listener_options.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "server/config.h"
#include "server/http2/http2_server.h"
#include "server/settings/limits.h"
#include "server/settings/tls_files.h"

namespace memoryd {
namespace {

int RpcThreads(const Config& config) {
  constexpr int kMost = 4;
  if (config.rpc_threads > 0) return config.rpc_threads;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 2, 1, kMost);
}

}  // namespace

Http2ServerOptions RpcListenerOptions(const Config& config, const TlsFiles* tls,
                                      std::int64_t budget, std::int64_t request_bytes) {
  Http2ServerOptions options;
  options.addresses = config.listen;
  options.tls = tls;
  options.unix_mode = config.unix_socket_mode;
  options.threads = RpcThreads(config);
  options.max_connections = static_cast<std::size_t>(config.max_connections);
  options.max_connections_per_address =
      static_cast<std::size_t>(config.max_connections_per_address);
  if (budget > 0) options.unauthenticated_bytes = budget / 4;
  options.max_message_bytes = static_cast<std::size_t>(request_bytes);
  options.keepalive = kKeepalive;
  options.max_connection_age = std::chrono::seconds(config.max_connection_age_s);
  options.max_connection_age_grace = std::chrono::seconds(config.max_connection_age_grace_s);
  return options;
}

Http2ServerOptions HttpListenerOptions(const Config& config, const TlsFiles* tls,
                                       std::int64_t budget, std::int64_t request_bytes) {
  Http2ServerOptions options = RpcListenerOptions(config, tls, budget, request_bytes);
  options.addresses = config.http_listen;
  constexpr std::int64_t kPart = 16;
  if (budget > 0) options.unauthenticated_bytes = budget / kPart;
  return options;
}

Http2ServerOptions HealthListenerOptions(const Config& config) {
  Http2ServerOptions options;
  options.addresses = config.health_listen;
  options.unix_mode = config.unix_socket_mode;
  options.max_connections = 64;
  options.max_connections_per_address = 32;
  options.unauthenticated_bytes = 4 << 20;
  options.max_message_bytes = 1 << 10;
  return options;
}

}  // namespace memoryd
