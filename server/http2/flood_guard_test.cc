#include "server/http2/flood_guard.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>

namespace memoryd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr FloodGuard::TimePoint kStart{seconds(1000)};

TEST(FloodGuardTest, BearsABurst) {
  FloodGuard guard(kStart);
  for (int i = 0; i < 1000; ++i) guard.Count(1, kStart);
  EXPECT_FALSE(guard.flooded());
  guard.Count(1, kStart);
  EXPECT_TRUE(guard.flooded());
}

TEST(FloodGuardTest, BearsItsRateForEver) {
  FloodGuard guard(kStart);
  FloodGuard::TimePoint now = kStart;
  for (int i = 0; i < 100'000; ++i) guard.Count(1, now += milliseconds(5));
  EXPECT_FALSE(guard.flooded());
  for (int i = 0; i < 2100; ++i) guard.Count(2, now += milliseconds(5));
  EXPECT_TRUE(guard.flooded());
}

TEST(FloodGuardTest, QuietTimeIsNotSavedUp) {
  FloodGuard guard(kStart);
  guard.Count(1, kStart + seconds(3600));
  for (int i = 0; i < 1000; ++i) guard.Count(1, kStart + seconds(3600));
  EXPECT_TRUE(guard.flooded());
}

TEST(FloodGuardTest, EndsABlockOfTooManyHeadersAndNotTwoOfHalfAsMany) {
  constexpr std::size_t kValue = 1000;
  const auto send = [](FloodGuard& guard, std::size_t bytes) {
    guard.BeginHeaders(kStart);
    for (std::size_t sent = 0; sent < bytes; sent += kValue + 32) guard.CountHeader(kValue);
  };
  FloodGuard patient(kStart);
  send(patient, 250 << 10);
  send(patient, 250 << 10);
  EXPECT_FALSE(patient.flooded());
  FloodGuard guard(kStart);
  send(guard, 258 << 10);
  EXPECT_TRUE(guard.flooded());
}

TEST(FloodGuardTest, CountsAnEmptyHeaderToo) {
  FloodGuard guard(kStart);
  guard.BeginHeaders(kStart);
  for (int i = 0; i < 8192; ++i) guard.CountHeader(0);
  EXPECT_FALSE(guard.flooded());
  guard.CountHeader(0);
  EXPECT_TRUE(guard.flooded());
}

TEST(FloodGuardTest, ALargeBlockCountsAsOfNoUse) {
  FloodGuard guard(kStart);
  for (int i = 0; i < 200; ++i) {
    guard.BeginHeaders(kStart);
    guard.CountHeader(FloodGuard::kLargeHeaders);
  }
  EXPECT_FALSE(guard.flooded());
  guard.BeginHeaders(kStart);
  guard.CountHeader(FloodGuard::kLargeHeaders);
  EXPECT_TRUE(guard.flooded());
}

}  // namespace
}  // namespace memoryd
