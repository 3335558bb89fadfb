// The RPCs of memoryd.v1.MemoryService.
#ifndef MEMORYD_SERVER_RPC_MEMORY_SERVICE_H_
#define MEMORYD_SERVER_RPC_MEMORY_SERVICE_H_

#include "core/engine/engine.h"
#include "memoryd/v1/memory_service.pb.h"
#include "server/rpc/unary_call.h"

namespace memoryd {

// Each method parses, checks, hands the call to the engine and returns; nothing waits on the
// threads of connections.
class MemoryService final {
 public:
  MemoryService(Engine* engine, const CallEnvironment& environment)
      : engine_(*engine), environment_(environment) {}

  // The service outlives `methods`.
  void AddTo(RpcMethods& methods);

  void Put(RpcCallPtr rpc);
  void PutBatch(RpcCallPtr rpc);
  void Get(RpcCallPtr rpc);
  void GetAll(RpcCallPtr rpc);
  void Set(RpcCallPtr rpc);
  void Reset(RpcCallPtr rpc);
  void Query(RpcCallPtr rpc);
  void UpdateContext(RpcCallPtr rpc);
  void StreamAll(RpcCallPtr rpc);
  void UpdateMessage(RpcCallPtr rpc);
  void DeleteMessage(RpcCallPtr rpc);
  void GetContent(RpcCallPtr rpc);
  void UpdateContent(RpcCallPtr rpc);
  void DeleteContent(RpcCallPtr rpc);

 private:
  Engine& engine_;
  const CallEnvironment environment_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_MEMORY_SERVICE_H_
