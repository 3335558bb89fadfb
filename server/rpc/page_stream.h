// A session's messages as a stream of pages.
#ifndef MEMORYD_SERVER_RPC_PAGE_STREAM_H_
#define MEMORYD_SERVER_RPC_PAGE_STREAM_H_

#include "core/engine/engine.h"
#include "server/rpc/unary_call.h"

namespace memoryd {

// Begins to answer a StreamAll: admitted, counted and logged as other calls are. The next page is
// read when the one before has left, so that a stream keeps one. It ends at the next page when its
// caller is gone or the server drains.
void RunPageStream(Engine& engine, const CallEnvironment& environment, RpcCallPtr rpc);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_PAGE_STREAM_H_
