#include "server/wire/rpc_status.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/error_cause.h"
#include "google/rpc/error_details.pb.h"
#include "memoryd/v1/memory_service.pb.h"

namespace memoryd {
namespace {

google::rpc::ErrorInfo InfoOf(const RpcStatus& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  EXPECT_TRUE(details.ParseFromString(status.details));
  EXPECT_EQ(details.code(), status.code);
  EXPECT_EQ(details.message(), status.message);
  EXPECT_EQ(details.details_size(), 1);
  EXPECT_TRUE(details.details(0).UnpackTo(&info));
  return info;
}

TEST(RpcStatusTest, OkIsOk) { EXPECT_EQ(ToRpcStatus(absl::OkStatus()).code, 0); }

TEST(RpcStatusTest, CarriesCodeMessageReasonAndValues) {
  const RpcStatus status = ToRpcStatus(Error(absl::StatusCode::kAborted, "REVISION_MISMATCH",
                                             "read again", {{"current_revision", "7"}}));
  EXPECT_EQ(status.code, static_cast<int>(absl::StatusCode::kAborted));
  EXPECT_EQ(status.message, "read again");
  const google::rpc::ErrorInfo info = InfoOf(status);
  EXPECT_EQ(info.reason(), "REVISION_MISMATCH");
  EXPECT_EQ(info.domain(), "memoryd");
  EXPECT_EQ(info.metadata().at("current_revision"), "7");
}

TEST(RpcStatusTest, TellsWhenToTryAgain) {
  const RpcStatus status = ToRpcStatus(Error(absl::StatusCode::kResourceExhausted, "TENANT_RATE",
                                             "slower", {{std::string(kRetryAfterMs), "1250"}}));
  google::rpc::Status details;
  google::rpc::RetryInfo retry;
  ASSERT_TRUE(details.ParseFromString(status.details));
  ASSERT_EQ(details.details_size(), 2);
  ASSERT_TRUE(details.details(1).UnpackTo(&retry));
  EXPECT_EQ(retry.retry_delay().seconds(), 1);
  EXPECT_EQ(retry.retry_delay().nanos(), 250'000'000);
}

TEST(RpcStatusTest, EveryCodeKeepsItsNumber) {
  for (int code = 1; code <= 16; ++code) {
    EXPECT_EQ(ToRpcStatus(absl::Status(static_cast<absl::StatusCode>(code), "x")).code, code);
  }
}

TEST(RpcStatusTest, AStatusWithoutReasonIsGivenItsCode) {
  EXPECT_EQ(InfoOf(ToRpcStatus(absl::NotFoundError("x"))).reason(), "NOT_FOUND");
}

TEST(RpcStatusTest, TheTextOfOurOwnFaultsStaysHere) {
  for (const absl::Status& status :
       {absl::InternalError("SELECT secret FROM db1"), absl::UnknownError("db1")}) {
    const RpcStatus shown = ToRpcStatus(status);
    EXPECT_EQ(shown.message, "internal error");
    EXPECT_EQ(shown.details.find("db1"), std::string::npos);
    EXPECT_EQ(InfoOf(shown).reason(), "INTERNAL");
  }
}

TEST(RpcStatusTest, TheCauseOfAStoresErrorStaysHere) {
  const RpcStatus shown =
      ToRpcStatus(WithCause(StoreUnavailable(), "08006", "connection to server at db1 failed"));
  EXPECT_EQ(InfoOf(shown).reason(), "STORE_UNAVAILABLE");
  for (const std::string& text : {shown.message, shown.details}) {
    EXPECT_EQ(text.find("db1"), std::string::npos);
    EXPECT_EQ(text.find("08006"), std::string::npos);
  }
}

TEST(RpcStatusTest, AnOutcomeSaysWhatACallWouldHaveSaid) {
  v1::PutError error;
  FillError(StoreUnavailable(), error);
  EXPECT_EQ(error.code(), 14);
  EXPECT_EQ(error.reason(), "STORE_UNAVAILABLE");
  FillError(absl::CancelledError("gone"), error);
  EXPECT_EQ(error.reason(), "CANCELLED");
  EXPECT_EQ(error.message(), "gone");
  FillError(absl::InternalError("db1"), error);
  EXPECT_EQ(error.reason(), "INTERNAL");
  EXPECT_EQ(error.message(), "internal error");
}

TEST(RpcStatusTest, ALongMessageIsCutBetweenCodePoints) {
  EXPECT_EQ(ToRpcStatus(absl::NotFoundError(std::string(1024, 'x'))).message.size(), 1024U);
  // The fourth byte of the owl would be the 1,025th.
  const std::string owl = "\xF0\x9F\xA6\x89";
  const RpcStatus status =
      ToRpcStatus(absl::NotFoundError(std::string(1021, 'x') + owl + std::string(5000, 'y')));
  EXPECT_EQ(status.message, std::string(1021, 'x'));
  InfoOf(status);
}

}  // namespace
}  // namespace memoryd
