// A session that comes as a stream of pieces.
#ifndef MEMORYD_SERVER_RPC_IMPORT_STREAM_H_
#define MEMORYD_SERVER_RPC_IMPORT_STREAM_H_

#include "core/engine/engine.h"
#include "server/rpc/unary_call.h"

namespace memoryd {

// Begins to take an ImportSession: admitted, counted and logged as other calls are. The next
// request is read when the one before is stored, so that a stream keeps one. It ends at the next
// request when the server drains or lacks memory.
void RunImportStream(Engine& engine, const CallEnvironment& environment, RpcCallPtr rpc);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_IMPORT_STREAM_H_
