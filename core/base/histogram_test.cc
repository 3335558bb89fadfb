#include "core/base/histogram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

constexpr std::array<std::int64_t, 3> kBounds = {1, 10, 100};

TEST(HistogramTest, ABoundBelongsToTheBucketBelowIt) {
  Histogram<kBounds> histogram;
  for (const int value : {0, 1, 2, 10, 11, 100, 101, 5000}) histogram.Observe(value);
  const HistogramSnapshot snapshot = histogram.Snapshot();
  EXPECT_THAT(snapshot.counts, ElementsAre(2, 2, 2, 2));
  EXPECT_EQ(snapshot.sum, 5225);
  EXPECT_THAT(snapshot.bounds, ElementsAreArray(kBounds));
}

TEST(HistogramTest, DurationsAreNanoseconds) {
  DurationHistogram histogram;
  histogram.Observe(std::chrono::microseconds(100));
  histogram.Observe(std::chrono::minutes(1));
  const HistogramSnapshot snapshot = histogram.Snapshot();
  EXPECT_EQ(snapshot.counts.front(), 1u);
  EXPECT_EQ(snapshot.counts.back(), 1u);
  EXPECT_EQ(snapshot.sum, 60'000'100'000);
}

TEST(HistogramTest, NoValueOfSeveralThreadsIsLost) {
  Histogram<kBounds> histogram;
  constexpr int kThreads = 4;
  constexpr int kValues = 10'000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&histogram] {
      for (int value = 0; value < kValues; ++value) histogram.Observe(5);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(histogram.Snapshot().counts, ElementsAre(0, kThreads * kValues, 0, 0));
  EXPECT_EQ(histogram.Snapshot().sum, 5 * kThreads * kValues);
}

}  // namespace
}  // namespace memoryd
