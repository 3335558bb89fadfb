// The RPC of grpc.reflection.v1.ServerReflection, and of its package v1alpha.
#ifndef MEMORYD_SERVER_RPC_REFLECTION_SERVICE_H_
#define MEMORYD_SERVER_RPC_REFLECTION_SERVICE_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/wire/rpc_call.h"

namespace memoryd {

// Tells the descriptors that are compiled into the server. Any thread.
class ReflectionService {
 public:
  // `services` are the full names of those that the server has. `admit` says whether a caller may
  // ask, by what the call brings.
  ReflectionService(std::vector<std::string> services,
                    std::function<absl::Status(const RpcCall&)> admit)
      : services_(std::move(services)), admit_(std::move(admit)) {}

  // The service outlives `methods`.
  void AddTo(RpcMethods& methods);

  void ServerReflectionInfo(RpcCallPtr rpc);

 private:
  class Stream;

  const std::vector<std::string> services_;
  const std::function<absl::Status(const RpcCall&)> admit_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_REFLECTION_SERVICE_H_
