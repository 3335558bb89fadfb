// absl::Status as gRPC's callers read it.
#ifndef MEMORYD_SERVER_WIRE_RPC_STATUS_H_
#define MEMORYD_SERVER_WIRE_RPC_STATUS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"

namespace memoryd {

struct RpcStatus {
  int code = 0;             // As gRPC numbers them; 0 is OK.
  std::string message;      // UTF-8, at most 1,024 bytes.
  std::string details;      // A google.rpc.Status, encoded; empty for OK.
  std::string reason = {};  // As google.rpc.ErrorInfo in the details has it.
};

// Same code and message, reason and values as google.rpc.ErrorInfo in the details, beside a
// google.rpc.RetryInfo when `retry_after_ms` is among them. The text of INTERNAL and UNKNOWN errors
// stays here.
RpcStatus ToRpcStatus(const absl::Status& status);

// Fills in what an outcome of a batch says of an error: v1.ItemError, v1.PutError.
template <typename OutcomeError>
void FillError(const absl::Status& status, OutcomeError& error) {
  RpcStatus shown = ToRpcStatus(status);
  error.set_code(shown.code);
  error.set_reason(std::move(shown.reason));
  error.set_message(std::move(shown.message));
}

}  // namespace memoryd

#endif  // MEMORYD_SERVER_WIRE_RPC_STATUS_H_
