#include "core/sessions/session_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/model/session.h"

namespace memoryd {
namespace {

SessionKey Key(std::size_t number) { return {"tenant", std::to_string(number)}; }

TEST(SessionCacheTest, AHeldSessionStaysTheOnlyCopy) {
  MemoryBudget budget(0);
  SessionCache cache(0, &budget);
  const std::shared_ptr<CachedSession> held = cache.Acquire(Key(0));
  for (std::size_t i = 1; i < 200; ++i) cache.Acquire(Key(i));
  EXPECT_EQ(cache.Acquire(Key(0)), held);
}

TEST(SessionCacheTest, WhatNobodyHoldsGoesLeastRecentlyUsedFirst) {
  MemoryBudget budget(0);
  SessionCache cache(std::size_t{1} << 30, &budget);
  std::vector<std::weak_ptr<CachedSession>> places;
  for (std::size_t i = 0; i < 100; ++i) places.push_back(cache.Acquire(Key(i)));
  EXPECT_EQ(cache.SessionCount(), 100U);
  cache.Acquire(Key(0));
  // As large as the whole cache: everything else of its shard has to go.
  const std::shared_ptr<CachedSession> large = cache.Acquire(Key(100));
  cache.Recharge(large, std::size_t{1} << 30);
  const std::size_t left = cache.SessionCount();
  EXPECT_LT(left, 101U);
  EXPECT_GT(left, 1U) << "shards of their own are not touched";
  EXPECT_EQ(cache.Acquire(Key(100)), large);
}

TEST(SessionCacheTest, BytesAreThoseOfWhatIsKept) {
  MemoryBudget budget(0);
  SessionCache cache(std::size_t{1} << 30, &budget);
  auto session = cache.Acquire(Key(0));
  const std::size_t empty = cache.ByteSize();
  cache.Recharge(session, 1000);
  EXPECT_EQ(cache.ByteSize(), empty + 1000);
  cache.Recharge(session, 10);
  EXPECT_EQ(cache.ByteSize(), empty + 10);
  session.reset();
  cache.Clear();
  EXPECT_EQ(cache.ByteSize(), 0U);
  EXPECT_EQ(cache.SessionCount(), 0U);
}

TEST(SessionCacheTest, TheBudgetEvictsSessionsOfTheLargestTenant) {
  constexpr std::int64_t kLimit = 2'000'000;
  MemoryBudget budget(kLimit);
  SessionCache cache(std::size_t{1} << 30, &budget);
  cache.Recharge(cache.Acquire({"small", "s"}), 100'000);
  const auto held = cache.Acquire({"large", "held"});
  cache.Recharge(held, 100'000);
  for (std::size_t i = 0; i < 40; ++i) {
    cache.Recharge(cache.Acquire({"large", std::to_string(i)}), 100'000);
    EXPECT_LE(budget.held(), kLimit);
    EXPECT_EQ(budget.held(), static_cast<std::int64_t>(cache.ByteSize()));
  }
  EXPECT_GT(cache.evictions(), 15U);
  EXPECT_EQ(cache.Acquire({"large", "held"}), held);
  EXPECT_GT(cache.Acquire({"small", "s"})->memory.bytes(), 100'000);
}

TEST(SessionCacheTest, ClearForgetsTheHeldOnesButKeepsTheirPlace) {
  MemoryBudget budget(0);
  SessionCache cache(std::size_t{1} << 30, &budget);
  const auto held = cache.Acquire(Key(0));
  cache.Acquire(Key(1));
  std::uint64_t before = 0;
  {
    MutexLock lock(held->mutex);
    held->loaded = true;
    before = held->forgotten;
  }
  cache.Clear();
  EXPECT_EQ(cache.SessionCount(), 1U);
  EXPECT_EQ(cache.Acquire(Key(0)), held);
  MutexLock lock(held->mutex);
  EXPECT_FALSE(held->loaded);
  EXPECT_GT(held->forgotten, before);
}

TEST(SessionCacheTest, ThereAreNeverTwoCopiesWhateverThreadsDo) {
  constexpr std::size_t kKeys = 24;
  MemoryBudget budget(0);
  SessionCache cache(0, &budget);
  struct Latest {
    Mutex mutex;
    std::weak_ptr<CachedSession> place MEMORYD_GUARDED_BY(mutex);
  };
  std::array<Latest, kKeys> latest;
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&cache, &latest, seed] {
      std::mt19937 generator(seed);
      for (int i = 0; i < 5000; ++i) {
        const std::size_t number = generator() % kKeys;
        const std::shared_ptr<CachedSession> place = cache.Acquire(Key(number));
        {
          MutexLock lock(latest[number].mutex);
          // Alive: somebody holds it now, while this thread holds its own.
          const std::shared_ptr<CachedSession> other = latest[number].place.lock();
          EXPECT_TRUE(other == nullptr || other == place);
          latest[number].place = place;
        }
        cache.Recharge(place, generator() % 1000);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < kKeys; ++i) cache.Acquire(Key(i));
  EXPECT_LE(cache.SessionCount(), kKeys);
}

}  // namespace
}  // namespace memoryd
