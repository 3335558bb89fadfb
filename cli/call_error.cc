#include "cli/call_error.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "google/rpc/error_details.pb.h"

namespace memoryd::cli {

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  google::rpc::ErrorInfo info;
  google::rpc::Status details;
  if (details.ParseFromString(status.error_details())) {
    for (const auto& detail : details.details()) {
      if (detail.UnpackTo(&info)) break;
    }
  }
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  const std::string name = absl::StatusCodeToString(code);
  const std::string said =
      info.reason().empty() || info.reason() == name
          ? fmt::format("{}: {}", name, status.error_message())
          : fmt::format("{} {}: {}", name, info.reason(), status.error_message());
  ErrorValues values(info.metadata().begin(), info.metadata().end());
  return Error(code, info.reason(), said, std::move(values));
}

absl::Status NoSession() {
  return Error(absl::StatusCode::kNotFound, "SESSION_NOT_FOUND",
               "NOT_FOUND SESSION_NOT_FOUND: there is no such session");
}

ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kDone;
    case absl::StatusCode::kInvalidArgument:
      return kWrongCommand;
    case absl::StatusCode::kNotFound:
      return kNotFound;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
      return kNotAnswered;
    default:
      return kFailed;
  }
}

absl::Status InContext(std::string_view context, const absl::Status& status) {
  return Error(status.code(), ErrorReason(status),
               fmt::format("{}: {}", context, std::string(status.message())), ErrorDetails(status));
}

}  // namespace memoryd::cli
