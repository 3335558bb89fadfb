#include "core/model/job.h"

#include <gtest/gtest.h>

namespace memoryd {
namespace {

TEST(UsageTest, SumsStopWhereTheyWouldOverflow) {
  Usage usage{Usage::kMax - 1, 5, Usage::kMax};
  usage += {kMaxAnswerUsage, 7, Usage::kMax};
  EXPECT_EQ(usage, (Usage{Usage::kMax, 12, Usage::kMax}));
  usage.prompt_tokens = Usage::kMax;
  EXPECT_EQ(usage.tokens(), 2 * Usage::kMax);
}

}  // namespace
}  // namespace memoryd
