// The RPCs of memoryd.v1.ServerService.
#ifndef MEMORYD_SERVER_SERVER_SERVICE_H_
#define MEMORYD_SERVER_SERVER_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <string_view>

#include "core/engine/engine.h"
#include "core/storage/observed_store.h"
#include "memoryd/v1/server_service.grpc.pb.h"
#include "server/config.h"
#include "server/unary_call.h"

namespace memoryd {

// What GetServerInfo tells. What is referred to outlives the service.
struct ServerFacts {
  std::string_view version;
  std::string_view revision;
  std::int64_t start_us = 0;
  const Config& config;
  const EngineOptions& options;
  const ObservedStore* store = nullptr;
};

v1::GetServerInfoResponse ServerInfo(const ServerFacts& facts);

using RawServerService =
    v1::ServerService::WithRawCallbackMethod_GetServerInfo<v1::ServerService::Service>;

class ServerService final : public RawServerService {
 public:
  ServerService(const ServerFacts& facts, const CallEnvironment& environment)
      : facts_(facts), environment_(environment) {}

  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext*, const grpc::ByteBuffer*,
                                          grpc::ByteBuffer*) override;

 private:
  const ServerFacts facts_;
  const CallEnvironment environment_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_SERVER_SERVICE_H_
