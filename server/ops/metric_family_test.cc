#include "server/ops/metric_family.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace memoryd {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

TEST(MetricFamiliesTest, AFamilyIsFilledHoweverManyAreAddedBehindIt) {
  constexpr int kMany = 1000;
  MetricFamilies families;
  Family first(families, "first", MetricType::Gauge, "The first.");
  for (int i = 0; i < kMany; ++i) {
    Family(families, std::to_string(i).c_str(), MetricType::Gauge, "Another.").Add(i);
    first.Add(i);
  }
  const std::vector<MetricFamily> taken = families.Take();
  ASSERT_EQ(taken.size(), 1u + kMany);
  EXPECT_EQ(taken[0].name, "first");
  ASSERT_EQ(taken[0].metric.size(), static_cast<std::size_t>(kMany));
  EXPECT_EQ(taken[0].metric[kMany - 1].gauge.value, kMany - 1);
  EXPECT_EQ(taken[kMany].name, std::to_string(kMany - 1));
}

TEST(MetricFamiliesTest, TakeLeavesNone) {
  MetricFamilies families;
  Family(families, "one", MetricType::Counter, "One.").Add(1);
  EXPECT_EQ(families.Take().size(), 1u);
  EXPECT_TRUE(families.Take().empty());
}

}  // namespace
}  // namespace memoryd
