#include "server/http2/grpc_headers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(GrpcHeadersTest, ReadsATimeoutInEachUnit) {
  EXPECT_EQ(ParseGrpcTimeout("2H"), std::chrono::hours(2));
  EXPECT_EQ(ParseGrpcTimeout("3M"), std::chrono::minutes(3));
  EXPECT_EQ(ParseGrpcTimeout("8S"), std::chrono::seconds(8));
  EXPECT_EQ(ParseGrpcTimeout("99999999m"), std::chrono::milliseconds(99'999'999));
  EXPECT_EQ(ParseGrpcTimeout("0u"), std::chrono::microseconds(0));
  EXPECT_EQ(ParseGrpcTimeout("5n"), std::chrono::nanoseconds(5));
}

TEST(GrpcHeadersTest, ALongTimeoutIsAYear) {
  EXPECT_EQ(ParseGrpcTimeout("99999999H"), std::chrono::hours(24 * 365));
  EXPECT_EQ(ParseGrpcTimeout("99999999M"), std::chrono::hours(24 * 365));
}

TEST(GrpcHeadersTest, WhatIsNoTimeoutIsNone) {
  for (const char* const text : {"", "S", "8", "8s", "-1S", "+1S", " 1S", "1.5S", "123456789S"}) {
    EXPECT_EQ(ParseGrpcTimeout(text), std::nullopt) << text;
  }
}

TEST(GrpcHeadersTest, EncodesWhatIsNotPrintable) {
  EXPECT_EQ(PercentEncoded("a b~"), "a b~");
  EXPECT_EQ(PercentEncoded("100%\nä"), "100%25%0A%C3%A4");
}

TEST(GrpcHeadersTest, WritesAnErrorWithoutWhatItLacks) {
  EXPECT_THAT(ErrorTrailers({5, "no such session", ""}, ""),
              ElementsAre(Pair("grpc-status", "5"), Pair("grpc-message", "no such session")));
  EXPECT_THAT(ErrorTrailers({5, "x", "abc"}, "r1"),
              ElementsAre(Pair("grpc-status", "5"), Pair("grpc-message", "x"),
                          Pair("grpc-status-details-bin", "YWJj"), Pair("x-request-id", "r1")));
}

}  // namespace
}  // namespace memoryd
