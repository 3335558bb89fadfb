#include "server/http/http_server.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "server/http/connect_call.h"
#include "server/http/http_connection.h"
#include "server/http/http_port.h"
#include "server/http2/connection.h"
#include "server/http2/http2_server.h"
#include "server/wire/method.h"
#include "server/wire/rpc_call.h"

namespace memoryd {
namespace {

// By `/package.Service/Method`; null where its file is not linked.
const google::protobuf::MethodDescriptor* MethodOf(const std::string& path) {
  std::string name = path.substr(1);
  const std::size_t slash = name.find('/');
  if (slash != std::string::npos) name[slash] = '.';
  return google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(name);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Http2Server>> StartHttpServer(HttpServerOptions options,
                                                             const RpcMethods* methods,
                                                             MemoryBudget* budget) {
  auto port = std::make_shared<HttpPort>();
  port->is_ready = std::move(options.is_ready);
  port->only_loopback_hosts = options.only_loopback_hosts;
  port->allowed_origins.insert(options.allowed_origins.begin(), options.allowed_origins.end());
  port->with_tls = options.listener.tls != nullptr;
  port->keeps_fields = options.keeps_headers;
  if (options.paths.empty()) {
    for (const MethodTraits& traits : kMethods) options.paths.push_back(PathOf(traits));
  }
  for (const std::string& path : options.paths) {
    const auto* const method = MethodOf(path);
    const RpcMethods::Start* const start = methods->Find(path);
    if (method == nullptr || start == nullptr) continue;
    ConnectMethod& served = port->methods[path];
    served.start = start;
    served.request = method->input_type();
    served.reply = method->output_type();
    served.streams_replies = method->server_streaming();
    served.streams_requests = method->client_streaming();
    served.has_no_effects =
        method->options().idempotency_level() == google::protobuf::MethodOptions::NO_SIDE_EFFECTS;
  }
  Http2ServerOptions listener = std::move(options.listener);
  listener.protocol = "http/1.1";
  listener.make = [port = std::move(port)](ConnectionParts parts) {
    return std::make_shared<HttpConnection>(port.get(), std::move(parts));
  };
  return Http2Server::Start(std::move(listener), methods, budget);
}

}  // namespace memoryd
