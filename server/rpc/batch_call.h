// One BatchItems: its reads in one look at the store, then its writes, a batch each.
#ifndef MEMORYD_SERVER_RPC_BATCH_CALL_H_
#define MEMORYD_SERVER_RPC_BATCH_CALL_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "core/engine/engine.h"
#include "memoryd/v1/item_service.pb.h"
#include "server/rpc/unary_call.h"

namespace memoryd {

// PERMISSION_DENIED `ROLE_NOT_GRANTED` for a caller that is limited to some roles, which no item
// has.
absl::Status CheckMayWriteItems(const Caller& caller);

// Whose items it reads and writes.
inline ItemCaller ItemCallerOf(const UnaryCall& call) {
  return {call.tenant(), call.caller().subject};
}

// Checks the request and its rights, and finishes the call when all its batches have ended. An
// error is that of the whole call. A value may have `item_bytes`.
absl::Status RunBatches(Engine& engine, std::size_t item_bytes, const CallEnvironment& environment,
                        const std::shared_ptr<ParsedCall<v1::BatchItemsRequest>>& call);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_BATCH_CALL_H_
