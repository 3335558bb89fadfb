#include "core/base/memory_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"

namespace memoryd {
namespace {

using Hold = MemoryBudget::Hold;
constexpr auto kRequests = MemoryUse::kRequests;
constexpr auto kJobs = MemoryUse::kJobs;
constexpr auto kSessions = MemoryUse::kSessions;
constexpr auto kIndexes = MemoryUse::kIndexes;

class MemoryBudgetTest : public ::testing::Test {
 protected:
  // Holds of tenants in a cache that evicts all it is asked for, one hold at a time.
  class Cache {
   public:
    Cache(MemoryBudget& budget, MemoryUse use) : budget_(budget), use_(use) {
      budget.AddCache(use, [this](const std::string& tenant, std::int64_t bytes) {
        ++asked_;
        evicted_.push_back(tenant);
        std::vector<Hold>& holds = holds_[tenant];
        while (bytes > 0 && !holds.empty() && !in_use_) {
          bytes -= holds.back().bytes();
          holds.pop_back();
        }
      });
    }
    ~Cache() { budget_.RemoveCache(use_); }

    void Add(const std::string& tenant, std::int64_t bytes, int count = 1) {
      for (int i = 0; i < count; ++i) {
        holds_[tenant].push_back(budget_.Count(tenant, use_, bytes));
      }
    }
    void KeepInUse() { in_use_ = true; }
    std::int64_t Bytes(const std::string& tenant) {
      std::int64_t bytes = 0;
      for (const Hold& hold : holds_[tenant]) bytes += hold.bytes();
      return bytes;
    }
    int asked() const { return asked_; }
    const std::vector<std::string>& evicted() const { return evicted_; }

   private:
    MemoryBudget& budget_;
    const MemoryUse use_;
    std::map<std::string, std::vector<Hold>> holds_;
    std::vector<std::string> evicted_;
    bool in_use_ = false;
    int asked_ = 0;
  };

  bool Takes(const std::string& tenant, MemoryUse use, std::int64_t bytes) {
    auto hold = budget_.Take(tenant, use, bytes);
    if (!hold.ok()) return false;
    kept_.push_back(*std::move(hold));
    return true;
  }

  std::chrono::steady_clock::time_point now_;
  MemoryBudget budget_{6400, [this] { return now_; }};
  std::vector<Hold> kept_;
};

TEST_F(MemoryBudgetTest, AHoldGivesBackWhatItHas) {
  {
    auto first = budget_.Take("a", kRequests, 100);
    ASSERT_TRUE(first.ok());
    Hold second = budget_.Count("a", kSessions, 50);
    EXPECT_EQ(budget_.held(), 150);
    EXPECT_EQ(budget_.holders(), 1);
    second.Resize(80);
    EXPECT_EQ(budget_.held(), 180);
    ASSERT_TRUE(first->Grow(20).ok());
    EXPECT_EQ(first->bytes(), 120);
    const Hold moved = std::move(*first);
    EXPECT_EQ(first->bytes(), 0);
    EXPECT_EQ(moved.bytes(), 120);
    EXPECT_EQ(budget_.held(), 200);
    second.Release();
    EXPECT_EQ(budget_.held(), 120);
    EXPECT_EQ(budget_.HeldByUse()[0], 120);
    second.Resize(10);
    EXPECT_EQ(budget_.held(), 120);
  }
  EXPECT_EQ(budget_.held(), 0);
  EXPECT_EQ(budget_.holders(), 0);
  EXPECT_EQ(budget_.HeldByUse(), MemoryByUse());
}

TEST_F(MemoryBudgetTest, WithoutALimitAllIsCounted) {
  MemoryBudget budget(0);
  const auto hold = budget.Take("a", kRequests, std::int64_t{1} << 50);
  ASSERT_TRUE(hold.ok());
  budget.MakeRoom(*hold);
  EXPECT_EQ(budget.held(), std::int64_t{1} << 50);
}

TEST_F(MemoryBudgetTest, ATenantAloneHasHalfOfWhatIsNeverEvicted) {
  EXPECT_TRUE(Takes("a", kRequests, 2000));
  EXPECT_TRUE(Takes("a", kJobs, 1200));
  const absl::Status refusal = budget_.Take("a", MemoryUse::kReplies, 1).status();
  EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReason(refusal), "MEMORY_SHORT");
  EXPECT_EQ(ErrorDetails(refusal).front().first, kRetryAfterMs);
  EXPECT_EQ(budget_.refused(MemoryUse::kReplies), 1U);
  EXPECT_EQ(budget_.held(), 3200);
  EXPECT_FALSE(budget_.TryTake("a", kJobs, 1).has_value());
  EXPECT_EQ(budget_.refused(kJobs), 0U);
  EXPECT_EQ(kept_.back().Grow(1).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(kept_.back().bytes(), 1200);
}

TEST_F(MemoryBudgetTest, ATenantAloneFillsAllButATenthWithCaches) {
  Cache cache(budget_, kSessions);
  cache.Add("a", 100, 57);
  budget_.MakeRoom(budget_.Count("a", kSessions, 0));
  EXPECT_EQ(cache.asked(), 0);
  cache.Add("a", 100);
  budget_.MakeRoom(budget_.Count("a", kSessions, 0));
  EXPECT_LE(budget_.held(), budget_.MostOfTenant(kSessions));
  EXPECT_GE(budget_.held(), budget_.MostOfTenant(kSessions) - 300);
  EXPECT_GT(budget_.evicted_bytes(kSessions), 0U);
}

TEST_F(MemoryBudgetTest, CachesOfTheLargestHolderAreEvictedBeforeAnyoneIsRefused) {
  Cache sessions(budget_, kSessions);
  Cache indexes(budget_, kIndexes);
  sessions.Add("large", 100, 25);
  indexes.Add("large", 100, 20);
  sessions.Add("small", 100, 19);
  EXPECT_TRUE(Takes("third", kRequests, 1000));
  EXPECT_EQ(sessions.evicted(), std::vector<std::string>{"large"});
  EXPECT_EQ(sessions.Bytes("small"), 1900);
  EXPECT_LE(budget_.held(), 6400);
  // What is left of the largest, then the other's.
  EXPECT_TRUE(Takes("third", kRequests, 2200));
  EXPECT_TRUE(Takes("fourth", kRequests, 1500));
  EXPECT_LT(sessions.Bytes("small"), 1900);
  EXPECT_EQ(budget_.refused(kRequests), 0U);
}

TEST_F(MemoryBudgetTest, TheLargestHolderIsRefusedFirstAndOneBelowItsShareLast) {
  EXPECT_TRUE(Takes("largest", kRequests, 3200));
  EXPECT_TRUE(Takes("large", kRequests, 1600));
  EXPECT_TRUE(Takes("small", kRequests, 10));
  // 3/4 of the limit is reached; both are at or above what three tenants have each.
  kept_[0].Resize(3000);
  EXPECT_TRUE(Takes("large", kRequests, 550));
  EXPECT_FALSE(Takes("largest", kRequests, 10));
  EXPECT_TRUE(Takes("large", kRequests, 840));
  EXPECT_FALSE(Takes("large", kRequests, 500));
  EXPECT_EQ(budget_.held(), 6000);
  // The third part of the limit for one of three, although there is no room.
  EXPECT_TRUE(Takes("small", kRequests, 1900));
  EXPECT_GT(budget_.held(), budget_.limit());
  // But not without bound.
  EXPECT_FALSE(Takes("small", kRequests, 200));
  EXPECT_LE(budget_.held(), budget_.limit() / 4 * 5);
  kept_.clear();
  EXPECT_EQ(budget_.held(), 0);
}

TEST_F(MemoryBudgetTest, OneAboveItsShareIsRefusedTheLaterTheLessItHolds) {
  Cache sessions(budget_, kSessions);
  sessions.KeepInUse();
  sessions.Add("largest", 100, 48);
  for (const char* const name : {"a", "b", "c", "d", "e", "f"}) {
    EXPECT_TRUE(Takes(name, kRequests, 10));
  }
  // Above the eighth part of the limit.
  EXPECT_TRUE(Takes("middle", kRequests, 1200));
  // With a third of what the largest has, two thirds of the quarter are left to it.
  EXPECT_TRUE(Takes("middle", kRequests, 400));
  EXPECT_GT(budget_.held(), budget_.limit());
  EXPECT_FALSE(Takes("largest", kRequests, 10));
  // With half of it, half of the quarter.
  EXPECT_FALSE(Takes("middle", kRequests, 800));
  EXPECT_TRUE(Takes("a", kRequests, 500));
}

TEST_F(MemoryBudgetTest, WhatATenantHoldsNeverHurtsOneThatHoldsLittle) {
  Cache sessions(budget_, kSessions);
  sessions.KeepInUse();
  sessions.Add("attacker", 100, 57);
  EXPECT_FALSE(Takes("attacker", kRequests, 1000));
  EXPECT_TRUE(Takes("victim", kRequests, 1000));
}

TEST_F(MemoryBudgetTest, CachesInUseAreNotLookedThroughAgainAndAgain) {
  Cache sessions(budget_, kSessions);
  sessions.KeepInUse();
  sessions.Add("a", 100, 64);
  for (int i = 0; i < 10; ++i) budget_.MakeRoom(budget_.Count("a", kSessions, 0));
  EXPECT_EQ(sessions.asked(), 1);
  now_ += std::chrono::seconds(1);
  budget_.MakeRoom(budget_.Count("a", kSessions, 0));
  EXPECT_EQ(sessions.asked(), 2);
}

TEST_F(MemoryBudgetTest, ShrinkEvictsHalfOfTheCaches) {
  Cache sessions(budget_, kSessions);
  sessions.Add("a", 100, 40);
  sessions.Add("b", 100, 4);
  budget_.Shrink();
  EXPECT_EQ(sessions.Bytes("a"), 1800);
  EXPECT_EQ(sessions.Bytes("b"), 400);
}

TEST_F(MemoryBudgetTest, OneOfTheHoldersHoldsMuch) {
  EXPECT_TRUE(budget_.HoldsMuch("a"));
  EXPECT_TRUE(Takes("a", kRequests, 100));
  EXPECT_TRUE(budget_.HoldsMuch("a"));
  EXPECT_TRUE(Takes("b", kRequests, 50));
  EXPECT_TRUE(budget_.HoldsMuch("a"));
  EXPECT_FALSE(budget_.HoldsMuch("b"));
  EXPECT_FALSE(budget_.HoldsMuch("c"));
}

TEST_F(MemoryBudgetTest, TenantsThatHoldNothingAreForgotten) {
  const Hold kept = budget_.Count("kept", kSessions, 1);
  for (int i = 0; i < 100'000; ++i) {
    ASSERT_TRUE(budget_.Take("t" + std::to_string(i), kRequests, 1).ok());
  }
  const std::vector<MemoryBudget::TenantMemory> tenants = budget_.Tenants();
  EXPECT_LE(tenants.size(), 16U * 256U);
  EXPECT_TRUE(std::any_of(tenants.begin(), tenants.end(),
                          [](const auto& tenant) { return tenant.tenant == "kept"; }));
}

void HoldAtRandom(MemoryBudget& budget, unsigned int seed) {
  std::minstd_rand random(seed);
  std::vector<MemoryBudget::Hold> holds;
  for (int i = 0; i < 5000; ++i) {
    const std::string tenant(1, static_cast<char>('a' + random() % 3));
    const auto use = static_cast<MemoryUse>(random() % kMemoryUses.size());
    const auto bytes = static_cast<std::int64_t>(random() % 2000);
    if (random() % 4 == 0) {
      holds.push_back(budget.Count(tenant, use, bytes));
    } else if (auto hold = budget.Take(tenant, use, bytes); hold.ok()) {
      holds.push_back(*std::move(hold));
    }
    if (!holds.empty() && random() % 2 == 0) {
      holds[random() % holds.size()].Resize(static_cast<std::int64_t>(random() % 1000));
    }
    if (!holds.empty() && random() % 4 == 0) {
      holds.front().Grow(static_cast<std::int64_t>(random() % 100)).IgnoreError();
    }
    if (random() % 16 == 0 && !holds.empty()) budget.MakeRoom(holds.front());
    if (holds.size() > 8) holds.erase(holds.begin());
  }
}

TEST_F(MemoryBudgetTest, ManyThreadsLeaveNothing) {
  Cache sessions(budget_, kSessions);
  std::vector<std::thread> threads;
  for (unsigned int t = 0; t < 8; ++t) {
    threads.emplace_back([this, t] { HoldAtRandom(budget_, t + 1); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget_.held(), 0);
  EXPECT_EQ(budget_.holders(), 0);
  EXPECT_EQ(budget_.HeldByUse(), MemoryByUse());
}

}  // namespace
}  // namespace memoryd
