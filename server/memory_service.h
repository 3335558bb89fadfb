// The RPCs of memoryd.v1.MemoryService.
#ifndef MEMORYD_SERVER_MEMORY_SERVICE_H_
#define MEMORYD_SERVER_MEMORY_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "core/engine/engine.h"
#include "memoryd/v1/memory_service.grpc.pb.h"
#include "server/unary_call.h"

namespace memoryd {

using RawMemoryService = v1::MemoryService::WithRawCallbackMethod_Put<
    v1::MemoryService::WithRawCallbackMethod_Get<v1::MemoryService::WithRawCallbackMethod_GetAll<
        v1::MemoryService::WithRawCallbackMethod_Set<v1::MemoryService::WithRawCallbackMethod_Reset<
            v1::MemoryService::WithRawCallbackMethod_Query<
                v1::MemoryService::WithRawCallbackMethod_UpdateContext<
                    v1::MemoryService::WithRawCallbackMethod_StreamAll<
                        v1::MemoryService::WithRawCallbackMethod_UpdateMessage<
                            v1::MemoryService::WithRawCallbackMethod_DeleteMessage<
                                v1::MemoryService::WithRawCallbackMethod_GetContent<
                                    v1::MemoryService::WithRawCallbackMethod_UpdateContent<
                                        v1::MemoryService::WithRawCallbackMethod_DeleteContent<
                                            v1::MemoryService::Service>>>>>>>>>>>>>;

// Each method parses, checks, hands the call to the engine and returns; nothing waits on gRPC's
// threads.
class MemoryService final : public RawMemoryService {
 public:
  MemoryService(Engine* engine, const CallEnvironment& environment)
      : engine_(*engine), environment_(environment) {}

  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;

  grpc::ServerUnaryReactor* Put(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* Get(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* GetAll(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* Set(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* Reset(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* Query(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* UpdateContext(Context*, const Bytes*, Bytes*) override;
  grpc::ServerWriteReactor<Bytes>* StreamAll(Context*, const Bytes*) override;
  grpc::ServerUnaryReactor* UpdateMessage(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* DeleteMessage(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* GetContent(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* UpdateContent(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* DeleteContent(Context*, const Bytes*, Bytes*) override;

 private:
  Engine& engine_;
  const CallEnvironment environment_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_MEMORY_SERVICE_H_
