// The connection over gRPC, which calls a server.
#ifndef MEMORYD_GRPC_CONNECTION_H_
#define MEMORYD_GRPC_CONNECTION_H_

#include <memory>

#include "memoryd/connection.h"
#include "memoryd/options.h"

namespace memoryd::client {

// Answers every RPC of Connection, with the token and trace of `options`. It connects with the
// first call, and again whenever the connection is lost.
std::shared_ptr<Connection> MakeGrpcConnection(const Options& options);

}  // namespace memoryd::client

#endif  // MEMORYD_GRPC_CONNECTION_H_
