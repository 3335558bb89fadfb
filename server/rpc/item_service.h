// The RPCs of memoryd.v1.ItemService.
#ifndef MEMORYD_SERVER_RPC_ITEM_SERVICE_H_
#define MEMORYD_SERVER_RPC_ITEM_SERVICE_H_

#include <cstddef>
#include <cstdint>

#include "core/engine/engine.h"
#include "memoryd/v1/item_service.pb.h"
#include "server/rpc/unary_call.h"

namespace memoryd {

// As MemoryService: nothing waits on the threads of connections.
class ItemService final {
 public:
  // `item_bytes`: the most that a value may have.
  ItemService(Engine* engine, std::int64_t item_bytes, const CallEnvironment& environment)
      : engine_(*engine),
        item_bytes_(static_cast<std::size_t>(item_bytes)),
        environment_(environment) {}

  // The service outlives `methods`.
  void AddTo(RpcMethods& methods);

  void PutItem(RpcCallPtr rpc);
  void GetItem(RpcCallPtr rpc);
  void DeleteItem(RpcCallPtr rpc);
  void ListItems(RpcCallPtr rpc);
  void SearchItems(RpcCallPtr rpc);
  void BatchItems(RpcCallPtr rpc);
  void GetNamespace(RpcCallPtr rpc);
  void UpdateNamespace(RpcCallPtr rpc);
  void ListNamespaces(RpcCallPtr rpc);
  void CopyNamespace(RpcCallPtr rpc);
  void DeleteNamespace(RpcCallPtr rpc);
  void ImportNamespace(RpcCallPtr rpc);

 private:
  Engine& engine_;
  const std::size_t item_bytes_;
  const CallEnvironment environment_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_ITEM_SERVICE_H_
