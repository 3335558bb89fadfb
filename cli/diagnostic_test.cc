#include "cli/diagnostic.h"

#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "core/base/error.h"

namespace memoryd::cli {
namespace {

TEST(ErrorLine, IsForPeopleOneEscapedLine) {
  const auto error = absl::NotFoundError("no\nsuch \x1b[2J");
  EXPECT_EQ(ErrorLine(error, false, false), "memoryd: no\\nsuch \\u{1B}[2J\n");
  EXPECT_EQ(ErrorLine(error, false, true), "\x1b[1;31mmemoryd:\x1b[0m no\\nsuch \\u{1B}[2J\n");
}

TEST(ErrorLine, IsAnObjectInJson) {
  EXPECT_EQ(ErrorLine(absl::NotFoundError("no\nsuch"), true, true),
            "{\"error\":{\"code\":\"NOT_FOUND\",\"message\":\"no\\nsuch\"}}\n");
  const auto error =
      Error(absl::StatusCode::kUnavailable, "OVERLOADED", "later", {{"retry_after_ms", "5"}});
  EXPECT_EQ(ErrorLine(error, true, false),
            "{\"error\":{\"code\":\"UNAVAILABLE\",\"reason\":\"OVERLOADED\",\"message\":\"later\","
            "\"details\":{\"retry_after_ms\":\"5\"}}}\n");
  EXPECT_EQ(ErrorLine(absl::InvalidArgumentError("unknown command \xff"), true, false),
            "{\"error\":{\"code\":\"INVALID_ARGUMENT\",\"message\":\"unknown command \uFFFD\"}}\n");
}

TEST(WarningLine, SaysThatItIsOne) {
  EXPECT_EQ(WarningLine("old", false, false), "memoryd: warning: old\n");
  EXPECT_EQ(WarningLine("old", true, false), "{\"warning\":{\"message\":\"old\"}}\n");
}

}  // namespace
}  // namespace memoryd::cli
