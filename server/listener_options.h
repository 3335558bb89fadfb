// How the server's listeners are set up by its settings.
#ifndef MEMORYD_SERVER_LISTENER_OPTIONS_H_
#define MEMORYD_SERVER_LISTENER_OPTIONS_H_

#include <cstdint>

#include "server/config.h"
#include "server/http2/http2_server.h"
#include "server/settings/tls_files.h"

namespace memoryd {

// Of the addresses in `listen`. `tls` is null for plain text. `budget` is what callers may have the
// server hold, in bytes, 0 for no limit; `request_bytes` the most of a request.
Http2ServerOptions RpcListenerOptions(const Config& config, const TlsFiles* tls,
                                      std::int64_t budget, std::int64_t request_bytes);

// Of the addresses in `http_listen`: as those of `listen`, with memory and threads of its own.
Http2ServerOptions HttpListenerOptions(const Config& config, const TlsFiles* tls,
                                       std::int64_t budget, std::int64_t request_bytes);

// Of the addresses in `health_listen`: a kubelet's, and that of whoever else reaches the port, so
// small.
Http2ServerOptions HealthListenerOptions(const Config& config);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_LISTENER_OPTIONS_H_
