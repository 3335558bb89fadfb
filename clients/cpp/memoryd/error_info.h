// What memoryd says of a failure besides its code and message.
#ifndef MEMORYD_ERROR_INFO_H_
#define MEMORYD_ERROR_INFO_H_

#include <absl/status/status.h>
#include <grpcpp/support/status.h>

#include <map>
#include <string>

namespace memoryd::client {

struct ErrorInfo {
  // In capitals, such as `REVISION_MISMATCH`; empty when the failure did not come from memoryd
  // itself (no connection, deadline).
  std::string reason = "";
  // The request field at fault, such as `messages[1].role`; empty when none is.
  std::string field = "";
  // All that the server says of the error, `field` and values such as `current_revision` among
  // them.
  std::map<std::string, std::string> details = {};
};

// The information that a status returned by Client carries; empty for any other.
ErrorInfo GetErrorInfo(const absl::Status& status);

// A status that carries `info`, for tests: what a server would have answered. `info.field` need not
// stand in `info.details`.
absl::Status WithErrorInfo(absl::Status status, const ErrorInfo& info);

// The status of a call, with the information that the server sent along.
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace memoryd::client

#endif  // MEMORYD_ERROR_INFO_H_
