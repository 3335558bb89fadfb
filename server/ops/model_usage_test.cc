#include "server/ops/model_usage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/model/job.h"
#include "server/access/tenant_limits.h"
#include "tests/support/fake_clock.h"

namespace memoryd {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr std::int64_t kHour = std::int64_t{3600} * 1'000'000;
constexpr std::int64_t kDay = 24 * kHour;

class ModelUsageTest : public testing::Test {
 protected:
  ModelUsage Make(TenantLimitTable limits) {
    return ModelUsage(
        [limits = std::move(limits)](std::string_view tenant) {
          return limits.Of(tenant).model_budget();
        },
        [](std::string_view tenant) { return !tenant.starts_with("guest"); }, &clock_);
  }

  const FakeClock clock_{[this] { return now_us_; }};
  std::int64_t now_us_ = 20'000 * kDay + 6 * kHour;
};

TEST_F(ModelUsageTest, WithoutABudgetAllIsAllowedAndCounted) {
  ModelUsage usage = Make({});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(usage.MayAsk("a").ok());
    usage.Count("a", {1, 1'000'000, 2});
  }
  EXPECT_EQ(usage.Of("a").total, (Usage{3, 3'000'000, 6}));
  EXPECT_EQ(usage.Of("a").today, (Usage{3, 3'000'000, 6}));
  EXPECT_EQ(usage.Of("a").budget, ModelBudget());
  EXPECT_EQ(usage.Of("b").total, Usage());
}

TEST_F(ModelUsageTest, TokensOfBothKindsAreUsedUpUntilMidnight) {
  ModelUsage usage = Make({.usual = {.model_tokens_per_day = 100}, .exceptions = {}});
  usage.Count("a", {1, 90, 9});
  EXPECT_TRUE(usage.MayAsk("a").ok());
  usage.Count("a", {1, 0, 1});
  const absl::Status refused = usage.MayAsk("a");
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_EQ(ErrorReason(refused), "MODEL_BUDGET");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("100 tokens"));
  EXPECT_EQ(ErrorDetails(refused),
            (ErrorValues{{"retry_after_ms", std::to_string(18 * kHour / 1000)}}));
  // Others have their own.
  EXPECT_TRUE(usage.MayAsk("b").ok());

  now_us_ += 18 * kHour - 1;
  EXPECT_FALSE(usage.MayAsk("a").ok());
  now_us_ += 1;
  EXPECT_TRUE(usage.MayAsk("a").ok());
  EXPECT_EQ(usage.Of("a").today, Usage());
  EXPECT_EQ(usage.Of("a").total, (Usage{2, 90, 10}));
  EXPECT_EQ(usage.All().at("a").refused, 2U);
}

TEST_F(ModelUsageTest, CallsAreLimitedByThemselves) {
  ModelUsage usage = Make({.usual = {.model_calls_per_day = 2}, .exceptions = {}});
  usage.Count("a", {1, 1'000'000, 0});
  EXPECT_TRUE(usage.MayAsk("a").ok());
  // A call that was made again counts as often as the model was asked.
  usage.Count("a", {2, 0, 0});
  EXPECT_THAT(std::string(usage.MayAsk("a").message()), HasSubstr("2 calls"));
}

TEST_F(ModelUsageTest, ATenantOfTheListHasItsOwnBudget) {
  TenantLimitTable limits{.usual = {.model_calls_per_day = 1}, .exceptions = {}};
  limits.exceptions["rich"].model_calls_per_day = 0;
  limits.exceptions["poor"].model_tokens_per_day = 5;
  ModelUsage usage = Make(limits);
  for (const std::string tenant : {"rich", "poor", "usual"}) usage.Count(tenant, {1, 4, 0});
  EXPECT_TRUE(usage.MayAsk("rich").ok());
  EXPECT_FALSE(usage.MayAsk("usual").ok());
  EXPECT_EQ(usage.Of("poor").budget, (ModelBudget{5, 1}));
}

TEST_F(ModelUsageTest, AClockThatIsSetBackGivesNothing) {
  ModelUsage usage = Make({.usual = {.model_calls_per_day = 1}, .exceptions = {}});
  usage.Count("a", {1, 0, 0});
  now_us_ -= kDay;
  EXPECT_FALSE(usage.MayAsk("a").ok());
  now_us_ += kDay;
  EXPECT_FALSE(usage.MayAsk("a").ok());
}

TEST_F(ModelUsageTest, MetricsNameTenantsOfAClosedSetOnly) {
  ModelUsage usage = Make({});
  usage.Count("guest-1", {1, 2, 3});
  usage.Count("guest-2", {1, 2, 3});
  usage.Count("a", {1, 1, 1});
  auto all = usage.All();
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all.at("a").total, (Usage{1, 1, 1}));
  EXPECT_EQ(all.at("other").total, (Usage{2, 4, 6}));
  // However many names the files hold.
  for (std::size_t i = 0; i < 2 * ModelUsage::kMaxNames; ++i) {
    usage.Count("tenant-" + std::to_string(i), {1, 0, 0});
  }
  all = usage.All();
  EXPECT_THAT(all, SizeIs(ModelUsage::kMaxNames));
  std::int64_t calls = 0;
  for (const auto& [name, series] : all) calls += series.total.calls;
  EXPECT_EQ(calls, 3 + 2 * static_cast<std::int64_t>(ModelUsage::kMaxNames));
}

}  // namespace
}  // namespace memoryd
