// A session's messages as a stream of pages.
#ifndef MEMORYD_SERVER_PAGE_STREAM_H_
#define MEMORYD_SERVER_PAGE_STREAM_H_

#include <grpcpp/grpcpp.h>

#include "core/engine/engine.h"
#include "server/unary_call.h"

namespace memoryd {

// Begins to answer a StreamAll: admitted, counted and logged as other calls are. The next page is
// read when the one before has been taken, so that a stream keeps one. It ends at the next page
// when its caller is gone or the server drains.
grpc::ServerWriteReactor<grpc::ByteBuffer>* RunPageStream(Engine& engine,
                                                          const CallEnvironment& environment,
                                                          grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer* request);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_PAGE_STREAM_H_
