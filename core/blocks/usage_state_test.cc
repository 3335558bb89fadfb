#include "core/blocks/usage_state.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "core/model/job.h"

namespace memoryd {
namespace {

TEST(UsageStateTest, IsReadBackAsItWasWritten) {
  const Usage usage{3, std::int64_t{1} << 40, 5};
  EXPECT_EQ(DecodeUsage(EncodeUsage(usage)), usage);
  EXPECT_EQ(DecodeUsage(EncodeUsage(Usage())), Usage());
}

TEST(UsageStateTest, WhatIsNoUsageIsNothing) {
  for (const std::string state : {"", "{", "[]", "7", R"({"calls":1})",
                                  R"({"calls":"1","prompt_tokens":2,"completion_tokens":3})"}) {
    EXPECT_EQ(DecodeUsage(state), Usage()) << state;
  }
}

}  // namespace
}  // namespace memoryd
