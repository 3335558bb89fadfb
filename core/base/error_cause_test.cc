#include "core/base/error_cause.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "core/base/error.h"

namespace memoryd {
namespace {

TEST(ErrorCauseTest, IsCarriedBesideTheReasonAndTheMessage) {
  const absl::Status status = WithCause(StoreUnavailable(), "08006", "connection refused");
  EXPECT_EQ(ErrorReason(status), "STORE_UNAVAILABLE");
  EXPECT_EQ(status.message(), StoreUnavailable().message());
  EXPECT_EQ(CauseOf(status).code, "08006");
  EXPECT_EQ(CauseOf(status).text, "connection refused");
  EXPECT_EQ(TextForLog(status),
            "the store can't be reached; nothing was changed: connection refused (08006)");
}

TEST(ErrorCauseTest, AStatusWithoutOneHasNone) {
  EXPECT_EQ(CauseOf(absl::UnavailableError("x")).code, "");
  EXPECT_EQ(CauseOf(absl::UnavailableError("x")).text, "");
  EXPECT_EQ(TextForLog(absl::UnavailableError("x")), "x");
  EXPECT_TRUE(WithCause(absl::OkStatus(), "08006", "x").ok());
}

TEST(ErrorCauseTest, IsOneLineAndNotLong) {
  const absl::Status lines = WithCause(absl::UnavailableError("x"), "", "no route\n\tto \nhost\n");
  EXPECT_EQ(CauseOf(lines).text, "no route to host");
  const absl::Status nul = WithCause(absl::UnavailableError("x"), "1", std::string("a\0b", 3));
  EXPECT_EQ(CauseOf(nul).text, "a b");
  const absl::Status cut = WithCause(absl::UnavailableError("x"), "", std::string(5000, 'y'));
  EXPECT_EQ(CauseOf(cut).text, std::string(1000, 'y'));
}

TEST(ErrorCauseTest, TheLatestCounts) {
  const absl::Status first = WithCause(absl::UnavailableError("x"), "08006", "cut");
  EXPECT_EQ(CauseOf(WithCause(first, "53100", "full")).text, "full");
}

}  // namespace
}  // namespace memoryd
