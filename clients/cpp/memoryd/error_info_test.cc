#include "memoryd/error_info.h"

#include <absl/status/status.h>
#include <gtest/gtest.h>

#include <string>

#include "google/rpc/error_details.pb.h"

namespace memoryd::client {
namespace {

grpc::Status Sent(const google::rpc::Status& details) {
  return {grpc::StatusCode::ABORTED, "read again", details.SerializeAsString()};
}

TEST(ErrorInfoTest, IsReadFromWhatAServerSends) {
  google::rpc::ErrorInfo info;
  info.set_reason("REVISION_MISMATCH");
  info.set_domain("memoryd");
  (*info.mutable_metadata())["current_revision"] = "7";
  (*info.mutable_metadata())["field"] = "messages[1].role";
  google::rpc::Status details;
  details.set_code(10);
  details.add_details()->PackFrom(google::rpc::Status());
  details.add_details()->PackFrom(info);

  const absl::Status status = FromGrpcStatus(Sent(details));
  EXPECT_TRUE(absl::IsAborted(status));
  EXPECT_EQ(status.message(), "read again");
  const ErrorInfo read = GetErrorInfo(status);
  EXPECT_EQ(read.reason, "REVISION_MISMATCH");
  EXPECT_EQ(read.field, "messages[1].role");
  EXPECT_EQ(read.details.at("current_revision"), "7");
  EXPECT_EQ(read.details.size(), 2U);
}

TEST(ErrorInfoTest, OtherStatusesHaveNone) {
  EXPECT_TRUE(FromGrpcStatus(grpc::Status::OK).ok());
  for (const std::string& bytes : {std::string(), std::string("\x1a\x7f no message"),
                                   std::string("\xff\xff\xff", 3), std::string(1, '\0')}) {
    const absl::Status status =
        FromGrpcStatus(grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone", bytes));
    EXPECT_TRUE(absl::IsUnavailable(status));
    EXPECT_EQ(GetErrorInfo(status).reason, "");
  }
  EXPECT_TRUE(GetErrorInfo(absl::NotFoundError("x")).details.empty());
}

TEST(ErrorInfoTest, WhatATestMakesIsReadAgain) {
  const absl::Status status = WithErrorInfo(
      absl::AbortedError("x"), {.reason = "R", .field = "f", .details = {{"a", "é\0"}}});
  const ErrorInfo info = GetErrorInfo(status);
  EXPECT_EQ(info.reason, "R");
  EXPECT_EQ(info.field, "f");
  EXPECT_EQ(info.details.at("a"), "é");
}

}  // namespace
}  // namespace memoryd::client
