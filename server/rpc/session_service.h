// The RPCs of memoryd.v1.SessionService.
#ifndef MEMORYD_SERVER_RPC_SESSION_SERVICE_H_
#define MEMORYD_SERVER_RPC_SESSION_SERVICE_H_

#include "core/engine/engine.h"
#include "memoryd/v1/session_service.pb.h"
#include "server/rpc/unary_call.h"

namespace memoryd {

// As MemoryService: nothing waits on the threads of connections.
class SessionService final {
 public:
  SessionService(Engine* engine, const CallEnvironment& environment)
      : engine_(*engine), environment_(environment) {}

  // The service outlives `methods`.
  void AddTo(RpcMethods& methods);

  void CreateSession(RpcCallPtr rpc);
  void GetSession(RpcCallPtr rpc);
  void ListSessions(RpcCallPtr rpc);
  void UpdateSession(RpcCallPtr rpc);
  void DeleteSession(RpcCallPtr rpc);
  void ForkSession(RpcCallPtr rpc);
  void ImportSession(RpcCallPtr rpc);
  void EraseSubject(RpcCallPtr rpc);

 private:
  Engine& engine_;
  const CallEnvironment environment_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_SESSION_SERVICE_H_
