// The RPCs of memoryd.v1.BlockService.
#ifndef MEMORYD_SERVER_BLOCK_SERVICE_H_
#define MEMORYD_SERVER_BLOCK_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "core/engine/engine.h"
#include "memoryd/v1/block_service.grpc.pb.h"
#include "server/unary_call.h"

namespace memoryd {

using RawBlockService = v1::BlockService::WithRawCallbackMethod_GetBlock<
    v1::BlockService::WithRawCallbackMethod_ListBlockEntries<
        v1::BlockService::WithRawCallbackMethod_UndoBlockChange<
            v1::BlockService::WithRawCallbackMethod_AddFact<
                v1::BlockService::WithRawCallbackMethod_UpdateFact<
                    v1::BlockService::WithRawCallbackMethod_DeleteFact<
                        v1::BlockService::Service>>>>>>;

// As MemoryService: nothing waits on gRPC's threads.
class BlockService final : public RawBlockService {
 public:
  BlockService(Engine* engine, const CallEnvironment& environment)
      : engine_(*engine), environment_(environment) {}

  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;

  grpc::ServerUnaryReactor* GetBlock(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* ListBlockEntries(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* UndoBlockChange(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* AddFact(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* UpdateFact(Context*, const Bytes*, Bytes*) override;
  grpc::ServerUnaryReactor* DeleteFact(Context*, const Bytes*, Bytes*) override;

 private:
  Engine& engine_;
  const CallEnvironment environment_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_BLOCK_SERVICE_H_
