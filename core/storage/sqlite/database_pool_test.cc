#include "core/storage/sqlite/database_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/storage/sqlite/database.h"

namespace memoryd::sqlite {
namespace {

using std::chrono::milliseconds;

std::vector<std::unique_ptr<Database>> Databases(int count) {
  std::vector<std::unique_ptr<Database>> databases;
  for (int i = 0; i < count; ++i) {
    auto db = Database::Open(":memory:", Database::Use::kWrite, 1000);
    EXPECT_TRUE(db.ok()) << db.status();
    databases.push_back(*std::move(db));
  }
  return databases;
}

void AwaitWaiting(DatabasePool& pool, std::size_t count) {
  while (pool.waiting() != count) std::this_thread::yield();
}

TEST(DatabasePoolTest, WhoHasWaitedIsNotOvertaken) {
  DatabasePool pool(Databases(1), milliseconds(60'000), /*patience=*/milliseconds(0));
  std::optional<DatabasePool::Lease> mine(*pool.Take());
  std::atomic<int> turns{0};
  std::thread first([&] {
    const auto lease = pool.Take();
    EXPECT_TRUE(lease.ok());
    EXPECT_EQ(turns.fetch_add(1), 0);
  });
  AwaitWaiting(pool, 1);
  std::thread second([&] {
    const auto lease = pool.Take();
    EXPECT_TRUE(lease.ok());
    EXPECT_EQ(turns.fetch_add(1), 1);
  });
  AwaitWaiting(pool, 2);
  mine.reset();
  const auto again = pool.Take();
  EXPECT_TRUE(again.ok());
  EXPECT_EQ(turns.load(), 2);
  first.join();
  second.join();
}

TEST(DatabasePoolTest, WhoComesFirstTakesItWhileNobodyHasWaitedForLong) {
  DatabasePool pool(Databases(1), milliseconds(60'000), /*patience=*/milliseconds(50'000));
  std::optional<DatabasePool::Lease> mine(*pool.Take());
  std::thread waiter([&] { EXPECT_TRUE(pool.Take().ok()); });
  AwaitWaiting(pool, 1);
  mine.reset();
  // Either of the two is first, and both get it.
  EXPECT_TRUE(pool.Take().ok());
  waiter.join();
}

TEST(DatabasePoolTest, EveryConnectionIsOfUse) {
  for (const milliseconds patience : {milliseconds(0), milliseconds(50'000)}) {
    DatabasePool pool(Databases(2), milliseconds(60'000), patience);
    std::optional<DatabasePool::Lease> one(*pool.Take());
    std::optional<DatabasePool::Lease> two(*pool.Take());
    std::atomic<int> inside{0};
    const auto wait_for_the_other = [&] {
      const auto lease = pool.Take();
      ASSERT_TRUE(lease.ok());
      inside.fetch_add(1);
      while (inside.load() < 2) std::this_thread::yield();
    };
    std::thread first(wait_for_the_other);
    std::thread second(wait_for_the_other);
    AwaitWaiting(pool, 2);
    one.reset();
    two.reset();
    first.join();
    second.join();
  }
}

TEST(DatabasePoolTest, NobodyWaitsForEver) {
  DatabasePool pool(Databases(1), milliseconds(1));
  const auto mine = pool.Take();
  ASSERT_TRUE(mine.ok());
  EXPECT_TRUE(absl::IsUnavailable(pool.Take().status()));
  EXPECT_EQ(pool.waiting(), 0);
}

TEST(DatabasePoolTest, ManyThreadsEachHaveItAlone) {
  DatabasePool pool(Databases(1), milliseconds(60'000), /*patience=*/milliseconds(0));
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 500; ++turn) {
        const auto lease = pool.Take();
        ASSERT_TRUE(lease.ok());
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 8 * 500);
}

}  // namespace
}  // namespace memoryd::sqlite
