// The RPCs of memoryd.v1.ServerService.
#ifndef MEMORYD_SERVER_RPC_SERVER_SERVICE_H_
#define MEMORYD_SERVER_RPC_SERVER_SERVICE_H_

#include <cstdint>
#include <string_view>

#include "core/engine/engine.h"
#include "core/storage/observed_store.h"
#include "memoryd/v1/server_service.pb.h"
#include "server/access/authenticator.h"
#include "server/access/settings_in_force.h"
#include "server/rpc/unary_call.h"

namespace memoryd {

// What GetServerInfo tells. What is referred to outlives the service.
struct ServerFacts {
  std::string_view version;
  std::string_view revision;
  std::int64_t start_us = 0;
  std::string_view store_kind;  // As in the store's URL.
  bool plaintext_beyond_loopback = false;
  // How callers may say who they are.
  bool takes_tokens = false;
  bool takes_certificates = false;
  const EngineOptions& options;
  const ObservedStore* store = nullptr;
  std::int64_t request_bytes = 0;  // See RequestBytes().
  std::int64_t item_bytes = 0;     // See ItemBytes().
  const SettingsInForce* settings = nullptr;
};

v1::GetServerInfoResponse ServerInfo(const ServerFacts& facts, const Caller& caller);

class ServerService final {
 public:
  ServerService(const ServerFacts& facts, const CallEnvironment& environment)
      : facts_(facts), environment_(environment) {}

  // The service outlives `methods`.
  void AddTo(RpcMethods& methods);

  void GetServerInfo(RpcCallPtr rpc);

 private:
  const ServerFacts facts_;
  const CallEnvironment environment_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_SERVER_SERVICE_H_
