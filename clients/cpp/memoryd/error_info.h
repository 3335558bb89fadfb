// Details of an error that memoryd sends with its code and message.
#ifndef MEMORYD_ERROR_INFO_H_
#define MEMORYD_ERROR_INFO_H_

#include <absl/status/status.h>
#include <grpcpp/support/status.h>

#include <map>
#include <string>

namespace memoryd::client {

struct ErrorInfo {
  // A constant in capitals, such as `REVISION_MISMATCH`. Empty: the error does not come from
  // memoryd, such as a lost connection or the client's own deadline.
  std::string reason = "";
  // The invalid field of the request, such as `messages[1].role`. Empty: none.
  std::string field = "";
  // All values that the server sends with the error, including `field` and others such as
  // `current_revision`.
  std::map<std::string, std::string> details = {};
};

// Returns the details of a status from Client. Empty: the status has none.
ErrorInfo GetErrorInfo(const absl::Status& status);

// Whether a call of Client that failed with `status` and changes something may have done so all the
// same: its outcome is unknown. False: nothing was done.
bool MayHaveBeenDone(const absl::Status& status);

// Returns `status` with the details `info`, for tests of code that handles a server's errors.
// `info.field` need not be in `info.details`.
absl::Status WithErrorInfo(absl::Status status, const ErrorInfo& info);

// Converts the status of a gRPC call, with the details that the server sent.
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace memoryd::client

#endif  // MEMORYD_ERROR_INFO_H_
