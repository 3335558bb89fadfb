#include "server/http/http_server.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <utility>

#include "server/http/http_connection.h"
#include "server/http/http_port.h"
#include "server/wire/method.h"

namespace memoryd {

absl::StatusOr<std::unique_ptr<Http2Server>> StartHttpServer(HttpServerOptions options,
                                                             const RpcMethods* methods,
                                                             MemoryBudget* budget) {
  auto port = std::make_shared<HttpPort>();
  port->is_ready = std::move(options.is_ready);
  port->only_loopback_hosts = options.only_loopback_hosts;
  port->allowed_origins.insert(options.allowed_origins.begin(), options.allowed_origins.end());
  port->with_tls = options.listener.tls != nullptr;
  const auto& pool = *google::protobuf::DescriptorPool::generated_pool();
  for (const MethodTraits& traits : kMethods) {
    std::string name = ServiceOf(traits).append(".").append(traits.name);
    const auto* const method = pool.FindMethodByName(name);
    const RpcMethods::Start* const start = methods->Find(PathOf(traits));
    if (method == nullptr || start == nullptr) continue;
    port->methods.emplace(PathOf(traits),
                          ConnectMethod{start, method->input_type(), method->output_type(),
                                        method->server_streaming(), method->client_streaming(),
                                        method->options().idempotency_level() ==
                                            google::protobuf::MethodOptions::NO_SIDE_EFFECTS});
  }
  Http2ServerOptions listener = std::move(options.listener);
  listener.protocol = "http/1.1";
  listener.make = [port = std::move(port)](ConnectionParts parts) {
    return std::make_shared<HttpConnection>(port.get(), std::move(parts));
  };
  return Http2Server::Start(std::move(listener), methods, budget);
}

}  // namespace memoryd
