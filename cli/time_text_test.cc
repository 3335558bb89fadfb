#include "cli/time_text.h"

#include <gtest/gtest.h>

#include "absl/status/status.h"

namespace memoryd::cli {
namespace {

TEST(ParseTimestamp, TakesRfc3339AndDays) {
  EXPECT_EQ(ParseTimestamp("2027-01-15T08:00:00Z")->seconds(), 1'800'000'000);
  EXPECT_EQ(ParseTimestamp("2027-01-15T09:00:00.25+01:00")->seconds(), 1'800'000'000);
  EXPECT_EQ(ParseTimestamp("2027-01-15T09:00:00.25+01:00")->nanos(), 250'000'000);
  EXPECT_EQ(ParseTimestamp("2027-01-15")->seconds(), 1'799'971'200);
}

TEST(ParseTimestamp, RefusesTheRest) {
  for (const char* text : {"", "yesterday", "2027-13-01", "2027-01-15T08:00:00", "1800000000",
                           "infinite-future", "2027-01-15 and more"}) {
    EXPECT_EQ(ParseTimestamp(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(TimeText, IsToTheSecond) {
  google::protobuf::Timestamp time;
  EXPECT_EQ(TimeText(time), "");
  time.set_seconds(1'800'000'000);
  time.set_nanos(999'999'999);
  EXPECT_EQ(TimeText(time), "2027-01-15T08:00:00Z");
}

}  // namespace
}  // namespace memoryd::cli
