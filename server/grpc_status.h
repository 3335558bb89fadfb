// absl::Status -> grpc::Status.
#ifndef MEMORYD_SERVER_GRPC_STATUS_H_
#define MEMORYD_SERVER_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace memoryd {

// Same code, message cut at 1,024 bytes, reason and values as google.rpc.ErrorInfo in the details,
// beside a google.rpc.RetryInfo when `retry_after_ms` is among them. The text of INTERNAL and
// UNKNOWN errors stays here.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_GRPC_STATUS_H_
