// The RPCs of memoryd.v1.SessionService.
#ifndef MEMORYD_SERVER_SESSION_SERVICE_H_
#define MEMORYD_SERVER_SESSION_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "core/engine/engine.h"
#include "memoryd/v1/session_service.grpc.pb.h"
#include "server/unary_call.h"

namespace memoryd {

using RawSessionService = v1::SessionService::WithRawCallbackMethod_CreateSession<
    v1::SessionService::WithRawCallbackMethod_GetSession<
        v1::SessionService::WithRawCallbackMethod_ListSessions<
            v1::SessionService::WithRawCallbackMethod_UpdateSession<
                v1::SessionService::WithRawCallbackMethod_DeleteSession<
                    v1::SessionService::WithRawCallbackMethod_ForkSession<
                        v1::SessionService::WithRawCallbackMethod_ImportSession<
                            v1::SessionService::WithRawCallbackMethod_EraseSubject<
                                v1::SessionService::Service>>>>>>>>;

// As MemoryService: nothing waits on gRPC's threads.
class SessionService final : public RawSessionService {
 public:
  SessionService(Engine* engine, const CallEnvironment& environment)
      : engine_(*engine), environment_(environment) {}

  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;

  grpc::ServerUnaryReactor* CreateSession(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* GetSession(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* ListSessions(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* UpdateSession(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* DeleteSession(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* ForkSession(Context*, const Bytes*, Bytes*) override;
  grpc::ServerReadReactor<Bytes>* ImportSession(Context*, Bytes*) override;
  grpc::ServerUnaryReactor* EraseSubject(Context*, const Bytes*, Bytes*) override;

 private:
  Engine& engine_;
  const CallEnvironment environment_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_SESSION_SERVICE_H_
