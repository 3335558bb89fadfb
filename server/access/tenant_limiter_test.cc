#include "server/access/tenant_limiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "server/access/tenant_limits.h"

namespace memoryd {
namespace {

class TenantLimiterTest : public ::testing::Test {
 protected:
  static TenantLimitTable Table(TenantLimits usual) {
    TenantLimitTable table;
    table.usual = usual;
    return table;
  }
  TenantLimiter Make(TenantLimitTable table) {
    return TenantLimiter(std::move(table), [this] { return now_; });
  }

  std::chrono::steady_clock::time_point now_{std::chrono::hours(1)};
};

TEST_F(TenantLimiterTest, WithoutLimitsEveryCallIsTaken) {
  TenantLimiter limiter = Make({});
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(limiter.Enter("a").ok());
}

TEST_F(TenantLimiterTest, ASecondsWorthMayComeAtOnceAndTheRestAtTheRate) {
  TenantLimiter limiter = Make(Table({.calls_per_second = 10}));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(limiter.Enter("a").ok()) << i;
  const absl::Status refused = limiter.Enter("a").status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(ErrorReason(refused), "TENANT_RATE");
  EXPECT_EQ(ErrorDetails(refused), (ErrorValues{{"retry_after_ms", "100"}}));
  EXPECT_TRUE(limiter.Enter("b").ok()) << "another tenant has a rate of its own";

  now_ += std::chrono::milliseconds(99);
  EXPECT_FALSE(limiter.Enter("a").ok()) << "what was refused is no turn taken";
  now_ += std::chrono::milliseconds(1);
  EXPECT_TRUE(limiter.Enter("a").ok());
  EXPECT_FALSE(limiter.Enter("a").ok());
  now_ += std::chrono::hours(1);
  int taken = 0;
  while (limiter.Enter("a").ok()) ++taken;
  EXPECT_EQ(taken, 10) << "a rest is worth a second, however long it was";
  EXPECT_EQ(limiter.refused_rate(), 4);
}

TEST_F(TenantLimiterTest, ACallMayTakeMoreTurnsInItsPlace) {
  TenantLimiter limiter = Make(Table({.calls_per_second = 3, .calls_in_flight = 1}));
  const auto place = limiter.Enter("a");
  EXPECT_TRUE(place.ok());
  EXPECT_TRUE(limiter.TakeTurn("a").ok());
  EXPECT_TRUE(limiter.TakeTurn("a").ok());
  EXPECT_EQ(ErrorReason(limiter.TakeTurn("a")), "TENANT_RATE");
  EXPECT_EQ(limiter.refused_rate(), 1);
  EXPECT_TRUE(Make({}).TakeTurn("a").ok());
}

TEST_F(TenantLimiterTest, LimitsChangeForWhoHasCalledAndForWhoHasNot) {
  TenantLimiter limiter = Make({});
  EXPECT_TRUE(limiter.Enter("a").ok());
  limiter.SetLimits(Table({.calls_in_flight = 1}));
  for (const char* const tenant : {"a", "b"}) {
    const auto place = limiter.Enter(tenant);
    EXPECT_TRUE(place.ok());
    EXPECT_EQ(ErrorReason(limiter.Enter(tenant).status()), "TENANT_CALLS_IN_FLIGHT");
  }
  limiter.SetLimits(Table({.calls_in_flight = 2}));
  const auto first = limiter.Enter("a"), second = limiter.Enter("a");
  EXPECT_TRUE(first.ok() && second.ok());
  EXPECT_FALSE(limiter.Enter("a").ok());
  limiter.SetLimits({});
  EXPECT_TRUE(limiter.Enter("a").ok());
}

TEST_F(TenantLimiterTest, OneCallASecondIsTheLeastRate) {
  TenantLimiter limiter = Make(Table({.calls_per_second = 1}));
  EXPECT_TRUE(limiter.Enter("a").ok());
  EXPECT_EQ(ErrorDetails(limiter.Enter("a").status()), (ErrorValues{{"retry_after_ms", "1000"}}));
  now_ += std::chrono::seconds(1);
  EXPECT_TRUE(limiter.Enter("a").ok());
}

TEST_F(TenantLimiterTest, CallsUnderWayTakePlacesUntilTheyEnd) {
  TenantLimiter limiter = Make(Table({.calls_in_flight = 2}));
  auto first = limiter.Enter("a");
  auto second = limiter.Enter("a");
  ASSERT_TRUE(first.ok() && second.ok());
  const absl::Status refused = limiter.Enter("a").status();
  EXPECT_EQ(ErrorReason(refused), "TENANT_CALLS_IN_FLIGHT");
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_TRUE(limiter.Enter("b").ok());
  TenantLimiter::Place moved = *std::move(first);
  EXPECT_FALSE(limiter.Enter("a").ok()) << "a place that moves is still taken";
  moved = {};
  EXPECT_TRUE(limiter.Enter("a").ok());
  EXPECT_EQ(limiter.refused_in_flight(), 2);
}

TEST_F(TenantLimiterTest, WatchesHavePlacesOfTheirOwn) {
  TenantLimiter limiter = Make(Table({.calls_in_flight = 1, .watches = 2}));
  const auto call = limiter.Enter("a");
  auto first = limiter.EnterWatch("a");
  const auto second = limiter.EnterWatch("a");
  ASSERT_TRUE(call.ok() && first.ok() && second.ok());
  const absl::Status refused = limiter.EnterWatch("a").status();
  EXPECT_EQ(ErrorReason(refused), "TENANT_WATCHES");
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_NE(refused.message().find("tenant_watches"), absl::string_view::npos);
  EXPECT_TRUE(limiter.EnterWatch("b").ok());
  *first = {};
  EXPECT_TRUE(limiter.EnterWatch("a").ok());
  EXPECT_EQ(limiter.refused_watches(), 1);
}

TEST_F(TenantLimiterTest, WatchesAreBoundedWhereCallsAreNot) {
  TenantLimiter limiter = Make(Table({.watches = 1}));
  const auto held = limiter.EnterWatch("a");
  EXPECT_FALSE(limiter.EnterWatch("a").ok());
  limiter.SetLimits(Table({.watches = 0}));
  std::vector<absl::StatusOr<TenantLimiter::Place>> many;
  for (int i = 0; i < 1000; ++i) many.push_back(limiter.EnterWatch("a"));
  EXPECT_TRUE(many.back().ok());
}

TEST_F(TenantLimiterTest, ExceptionsTakeTheUsualForWhatTheyDoNotSay) {
  TenantLimitTable table = Table({.calls_per_second = 1, .calls_in_flight = 1});
  table.exceptions["free"].calls_per_second = 0;
  table.exceptions["free"].calls_in_flight = 0;
  table.exceptions["wide"].calls_in_flight = 3;
  TenantLimiter limiter = Make(table);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(limiter.Enter("free").ok());
  EXPECT_TRUE(limiter.Enter("wide").ok());
  EXPECT_EQ(ErrorReason(limiter.Enter("wide").status()), "TENANT_RATE");
}

TEST_F(TenantLimiterTest, NoTurnIsTakenTwiceAndNoPlaceLost) {
  TenantLimiter limiter = Make(Table({.calls_per_second = 1000, .calls_in_flight = 8}));
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&limiter, &taken] {
      for (int call = 0; call < 500; ++call) taken += limiter.Enter("a").ok() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, 1000);
  now_ += std::chrono::seconds(1);
  std::atomic<int> under_way{0};
  threads.clear();
  for (int i = 0; i < 12; ++i) {
    threads.emplace_back([&limiter, &under_way] {
      for (int call = 0; call < 50; ++call) {
        const auto place = limiter.Enter("a");
        if (!place.ok()) continue;
        EXPECT_LE(++under_way, 8);
        std::this_thread::yield();
        --under_way;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  now_ += std::chrono::seconds(1);
  std::vector<TenantLimiter::Place> places;
  for (int i = 0; i < 8; ++i) {
    auto place = limiter.Enter("a");
    ASSERT_TRUE(place.ok()) << place.status();
    places.push_back(*std::move(place));
  }
  EXPECT_FALSE(limiter.Enter("a").ok());
}

}  // namespace
}  // namespace memoryd
