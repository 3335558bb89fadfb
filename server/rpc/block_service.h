// The RPCs of memoryd.v1.BlockService.
#ifndef MEMORYD_SERVER_RPC_BLOCK_SERVICE_H_
#define MEMORYD_SERVER_RPC_BLOCK_SERVICE_H_

#include "core/engine/engine.h"
#include "memoryd/v1/block_service.pb.h"
#include "server/rpc/unary_call.h"

namespace memoryd {

// As MemoryService: nothing waits on the threads of connections.
class BlockService final {
 public:
  BlockService(Engine* engine, const CallEnvironment& environment)
      : engine_(*engine), environment_(environment) {}

  // The service outlives `methods`.
  void AddTo(RpcMethods& methods);

  void GetBlock(RpcCallPtr rpc);
  void ListBlockEntries(RpcCallPtr rpc);
  void UndoBlockChange(RpcCallPtr rpc);
  void AddFact(RpcCallPtr rpc);
  void UpdateFact(RpcCallPtr rpc);
  void DeleteFact(RpcCallPtr rpc);

 private:
  Engine& engine_;
  const CallEnvironment environment_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_BLOCK_SERVICE_H_
