#include "core/writes/admit_in_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "core/base/error.h"

namespace memoryd {
namespace {

using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

absl::Status Admit(milliseconds wait, milliseconds tenant_wait, milliseconds left) {
  return AdmitInTime(
      wait, [tenant_wait] { return tenant_wait; }, left);
}

TEST(AdmitInTimeTest, WhatWaitsMayTakeAThirdOfTheTime) {
  EXPECT_TRUE(Admit(milliseconds(100), milliseconds(100), milliseconds(300)).ok());
  EXPECT_FALSE(Admit(milliseconds(100), milliseconds(100), milliseconds(299)).ok());
  EXPECT_TRUE(Admit(milliseconds(0), milliseconds(0), milliseconds(1)).ok());
}

TEST(AdmitInTimeTest, OfOtherTenantsOnlyThatCountsWhichGoesBefore) {
  EXPECT_TRUE(Admit(milliseconds(1'000), milliseconds(100), milliseconds(300)).ok());
}

TEST(AdmitInTimeTest, BesideOtherTenantsItMayTakeTwoThirds) {
  EXPECT_TRUE(Admit(milliseconds(1'000), milliseconds(200), milliseconds(300)).ok());
  EXPECT_FALSE(Admit(milliseconds(1'000), milliseconds(201), milliseconds(300)).ok());
}

TEST(AdmitInTimeTest, ACallWhoseTimeIsOverIsNotRefused) {
  EXPECT_TRUE(Admit(milliseconds(100), milliseconds(100), milliseconds(0)).ok());
  EXPECT_TRUE(Admit(milliseconds(100), milliseconds(100), milliseconds(-5)).ok());
}

TEST(AdmitInTimeTest, ARefusalSaysWhenToTryAgain) {
  const absl::Status status = AdmitInTime(
      std::chrono::seconds(9), [] { return std::chrono::nanoseconds(1'000'001); }, milliseconds(1));
  EXPECT_EQ(ErrorReason(status), "QUEUE_FULL");
  EXPECT_THAT(ErrorDetails(status), Contains(Pair(std::string(kRetryAfterMs), "2")));
  EXPECT_THAT(std::string(status.message()), HasSubstr("2 ms"));
}

}  // namespace
}  // namespace memoryd
