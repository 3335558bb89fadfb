#include "core/llm/retry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

namespace memoryd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110.
const auto kNow = std::chrono::system_clock::from_time_t(784'111'777);

TEST(RetryTest, WaitsDoubleUpToABoundAndAreSpread) {
  const Backoff backoff = JitteredBackoff(1);
  for (int tries = 1; tries <= 20; ++tries) {
    const milliseconds longest(250LL << std::min(tries - 1, 6));
    milliseconds least = longest;
    milliseconds most(0);
    for (int i = 0; i < 1000; ++i) {
      const milliseconds wait = backoff(tries);
      EXPECT_GE(wait, longest / 2);
      EXPECT_LE(wait, longest);
      least = std::min(least, wait);
      most = std::max(most, wait);
    }
    EXPECT_LT(least, longest * 6 / 10);
    EXPECT_GT(most, longest * 9 / 10);
  }
}

TEST(RetryTest, RetryAfterIsSecondsOrADate) {
  EXPECT_EQ(ParseRetryAfter("0", kNow), seconds(0));
  EXPECT_EQ(ParseRetryAfter("120", kNow), seconds(120));
  EXPECT_EQ(ParseRetryAfter("Sun, 06 Nov 1994 08:49:37 GMT", kNow), seconds(0));
  EXPECT_EQ(ParseRetryAfter("Sun, 06 Nov 1994 08:50:37 GMT", kNow), seconds(60));
  EXPECT_EQ(ParseRetryAfter("Sun, 06 Nov 1994 08:50:37 GMT", kNow - milliseconds(1)), seconds(61));
  EXPECT_EQ(ParseRetryAfter("Mon, 07 Nov 1994 01:02:03 GMT", kNow), seconds(58'346));
}

TEST(RetryTest, RetryAfterIsNeverNegativeAndNeverLongerThanADay) {
  EXPECT_EQ(ParseRetryAfter("Sat, 05 Nov 1994 08:49:37 GMT", kNow), seconds(0));
  EXPECT_EQ(ParseRetryAfter("Sun, 06 Nov 2094 08:49:37 GMT", kNow), std::chrono::hours(24));
  EXPECT_EQ(ParseRetryAfter("99999999", kNow), std::chrono::hours(24));
  EXPECT_EQ(ParseRetryAfter("99999999999999999999999999", kNow), std::chrono::hours(24));
}

TEST(RetryTest, WhatIsNeitherIsNoRetryAfter) {
  for (const char* value :
       {"", "-1", "1.5", "soon", "1 ", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
        "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 06 Nov 1994 0x:49:37 GMT",
        "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT "}) {
    EXPECT_FALSE(ParseRetryAfter(value, kNow).has_value()) << value;
  }
}

}  // namespace
}  // namespace memoryd
