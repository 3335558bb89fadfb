// The gRPC side of who may do what: listeners, and what a call brings along.
//
// In gRPC's C interface, since its C++ interface of 1.51 has TLS files that are read again only as
// grpc::experimental, and that one takes over a certificate whose key has not yet come: see
// docs/adr/0007-tls-files.md.
#ifndef MEMORYD_SERVER_LISTENER_CREDENTIALS_H_
#define MEMORYD_SERVER_LISTENER_CREDENTIALS_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/authenticator.h"
#include "server/method.h"
#include "server/tls_files.h"

namespace memoryd {

// Credentials for one listener: TLS 1.2 or newer with what `tls` holds at each handshake, plaintext
// where it is null. Where `reflection_guard` is given, reflection wants its admin right.
// All that is pointed to outlives the server.
std::shared_ptr<grpc::ServerCredentials> ListenerCredentials(const TlsFiles* tls,
                                                             const Authenticator* reflection_guard);

// Authenticates a call by its `authorization` metadata and client certificate.
absl::StatusOr<Caller> AuthenticateCall(const Authenticator& authenticator,
                                        grpc::CallbackServerContext& context);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_LISTENER_CREDENTIALS_H_
