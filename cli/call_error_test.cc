#include "cli/call_error.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "google/rpc/error_details.pb.h"

namespace memoryd::cli {
namespace {

grpc::Status Refusal(grpc::StatusCode code, const std::string& reason) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  (*info.mutable_metadata())["retry_after_ms"] = "250";
  google::rpc::Status details;
  details.add_details()->PackFrom(info);
  return {code, "no such session", details.SerializeAsString()};
}

TEST(FromGrpcStatus, TellsCodeReasonAndWhatTheServerSays) {
  const absl::Status status =
      FromGrpcStatus(Refusal(grpc::StatusCode::NOT_FOUND, "SESSION_NOT_FOUND"));
  EXPECT_EQ(status.message(), "NOT_FOUND SESSION_NOT_FOUND: no such session");
  EXPECT_EQ(ErrorReason(status), "SESSION_NOT_FOUND");
  EXPECT_EQ(ErrorDetails(status), (ErrorValues{{"retry_after_ms", "250"}}));
  EXPECT_EQ(InContext("s1", status).message(), "s1: NOT_FOUND SESSION_NOT_FOUND: no such session");
  EXPECT_EQ(ErrorDetails(InContext("s1", status)), ErrorDetails(status));
}

TEST(FromGrpcStatus, TellsNoReasonWhereThereIsNone) {
  EXPECT_EQ(FromGrpcStatus({grpc::StatusCode::UNAVAILABLE, "refused"}).message(),
            "UNAVAILABLE: refused");
  EXPECT_EQ(FromGrpcStatus(Refusal(grpc::StatusCode::NOT_FOUND, "NOT_FOUND")).message(),
            "NOT_FOUND: no such session");
  EXPECT_EQ(FromGrpcStatus({grpc::StatusCode::UNAVAILABLE, "x", "no details"}).message(),
            "UNAVAILABLE: x");
  EXPECT_TRUE(FromGrpcStatus(grpc::Status::OK).ok());
}

TEST(ExitCodeOf, TellsApartWhatAScriptWouldDoOtherwise) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeOf(absl::AbortedError("")), 1);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("")), 2);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("")), 3);
  EXPECT_EQ(ExitCodeOf(absl::UnavailableError("")), 4);
  EXPECT_EQ(ExitCodeOf(absl::DeadlineExceededError("")), 4);
  EXPECT_EQ(ExitCodeOf(absl::ResourceExhaustedError("")), 4);
}

}  // namespace
}  // namespace memoryd::cli
