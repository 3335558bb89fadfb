// How a call failed, for whoever typed the command and for a script.
#ifndef MEMORYD_CLI_CALL_ERROR_H_
#define MEMORYD_CLI_CALL_ERROR_H_

#include <grpcpp/support/status.h>

#include <string_view>

#include "absl/status/status.h"

namespace memoryd::cli {

// Exit codes of the operators' commands; those that a shell gives, such as 130, stand beside them.
enum ExitCode {
  kDone = 0,
  kFailed = 1,        // The server refused, or something here went wrong.
  kWrongCommand = 2,  // The command line or what it asks for is wrong: INVALID_ARGUMENT.
  kNotFound = 3,      // NOT_FOUND.
  kNotAnswered = 4,   // UNAVAILABLE, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED: later it may do.
};

// A status with the reason and the values of the server's ErrorInfo (core/base/error.h), whose
// message is `CODE REASON: what the server says`, or `CODE: …` where it gives no reason.
absl::Status FromGrpcStatus(const grpc::Status& status);

// As the server says it: for replies that tell of a session that is not there by their revision.
absl::Status NoSession();

ExitCode ExitCodeOf(const absl::Status& status);

// `status` with "`context`: " before its message.
absl::Status InContext(std::string_view context, const absl::Status& status);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_CALL_ERROR_H_
