// Puts: of a call of their own, and many in one PutBatch.
#ifndef MEMORYD_SERVER_RPC_PUT_CALL_H_
#define MEMORYD_SERVER_RPC_PUT_CALL_H_

#include <memory>

#include "absl/status/status.h"
#include "core/engine/engine.h"
#include "memoryd/v1/memory_service.pb.h"
#include "server/rpc/unary_call.h"

namespace memoryd {

// Checks the request and begins the Put, which finishes the call. An error is that of the call.
absl::Status RunPut(Engine& engine, const std::shared_ptr<ParsedCall<v1::PutRequest>>& call);

// Does each Put of the request as a call of its own, with what the whole call has of its caller,
// and finishes the call when all have ended. An error is that of the whole call.
absl::Status RunPutBatch(Engine& engine, const CallEnvironment& environment,
                         const std::shared_ptr<ParsedCall<v1::PutBatchRequest>>& call);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_PUT_CALL_H_
