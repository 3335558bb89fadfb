#include "core/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(ErrorTest, CarriesItsReasonAndValuesBesideCodeAndMessage) {
  const absl::Status status = Error(absl::StatusCode::kAborted, "REVISION_MISMATCH", "read again",
                                    {{"current_revision", "7"}, {"empty", ""}});
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(std::string(status.message()), "read again");
  EXPECT_EQ(ErrorReason(status), "REVISION_MISMATCH");
  EXPECT_THAT(ErrorDetails(status), ElementsAre(Pair("current_revision", "7"), Pair("empty", "")));
}

TEST(ErrorTest, AnErrorWithoutValuesHasNone) {
  EXPECT_THAT(ErrorDetails(Error(absl::StatusCode::kNotFound, "SESSION_NOT_FOUND", "no")),
              IsEmpty());
}

TEST(ErrorTest, AStatusOfAnotherOriginHasNoReason) {
  EXPECT_EQ(ErrorReason(absl::NotFoundError("x")), "");
  EXPECT_THAT(ErrorDetails(absl::NotFoundError("x")), IsEmpty());
  EXPECT_EQ(ErrorReason(absl::OkStatus()), "");
}

TEST(ErrorTest, AnInvalidFieldIsNamedInMessageAndValues) {
  const absl::Status status = InvalidField("messages[3].role", "is required");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()), "messages[3].role: is required");
  EXPECT_EQ(ErrorReason(status), "INVALID_FIELD");
  EXPECT_THAT(ErrorDetails(status), ElementsAre(Pair("field", "messages[3].role")));
}

TEST(ErrorTest, AnUnreachableStoreIsUnavailable) {
  EXPECT_EQ(StoreUnavailable().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ErrorReason(StoreUnavailable()), "STORE_UNAVAILABLE");
}

}  // namespace
}  // namespace memoryd
