// What Purge deletes, and what several servers that purge at once leave.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/postgres/pg_test_support.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"

namespace memoryd {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::SizeIs;

constexpr PurgeLimits kNoLimit{100, 10, 1'000'000};

auto Is(CommitOutcome outcome) { return Field(&CommitResult::outcome, outcome); }

std::vector<std::string> Bodies(Store& store, const SessionKey& key) {
  std::vector<std::string> bodies;
  const auto loaded = store.LoadSession(key, kAllActive);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  if (loaded.ok() && loaded->has_value()) {
    for (const MessagePtr& message : (*loaded)->active) bodies.emplace_back(message->body);
  }
  return bodies;
}

// `messages` of them, from position 1 on, that nothing refers to, and the row that says so.
void AddGarbage(const TestDatabase& database, int messages) {
  database.Run(
      fmt::format("INSERT INTO memoryd_messages SELECT 't', 's', 1, n, NULL, 1, 1, 1, '', 'body' "
                  "FROM generate_series(1, {}) n",
                  messages));
  database.Run(
      fmt::format("INSERT INTO memoryd_garbage VALUES ('t', 's', 1, 1, {})", messages + 1));
}

// As many jobs as given, of three blocks, that nothing refers to, and the row that says so.
void AddBlockGarbage(const TestDatabase& database, int jobs) {
  database.Run(
      fmt::format("INSERT INTO memoryd_jobs SELECT 't', 's', 2, 'b' || n % 3, n, 1, 1, 2, 0, 0, 1, "
                  "1, 1, 0, 0, 0, '', 0, 0, 0 FROM generate_series(1, {}) n",
                  jobs));
  database.Run(
      "INSERT INTO memoryd_blocks SELECT 't', 's', 2, 'b' || n, 0, 1, 0, 1, 1, 'state' "
      "FROM generate_series(0, 2) n");
  database.Run("INSERT INTO memoryd_garbage VALUES ('t', 's', 2, 0, 0)");
}

int Count(const TestDatabase& database, const char* table) {
  return database.Run(fmt::format("SELECT count(*) FROM {}", table))[0][0].as<int>();
}

TEST(SweepTest, SweepsBehindASetAndKeepsPinnedMessages) {
  const TestDatabase database;
  const auto store = database.Open();
  SessionChange change = CreateChange("s", 10);
  change.row.pinned = {1, 2};
  const SessionChange other = CreateChange("other", 10);
  ASSERT_THAT(store->Commit(std::vector{change, other}), Each(Is(CommitOutcome::kCommitted)));
  change = NextChange(change, 0);
  change.row.floor = change.row.watermark = 8;
  change.garbage = {{change.row.generation, 3, 8}};
  ASSERT_THAT(store->Commit({&change, 1}), Each(Is(CommitOutcome::kCommitted)));
  EXPECT_EQ(*store->Purge({100, 10, 3}), 3);
  EXPECT_EQ(*store->Purge({100, 10, 3}), 2);
  EXPECT_EQ(*store->Purge({100, 10, 3}), 0);
  EXPECT_THAT(Bodies(*store, change.key), ElementsAre("s 1", "s 2", "s 8", "s 9", "s 10"));
  EXPECT_THAT(Bodies(*store, other.key), SizeIs(10));
  EXPECT_EQ(database.Run("SELECT * FROM memoryd_garbage").size(), 0U);
}

TEST(SweepTest, EveryStepBeginsBehindTheLast) {
  const TestDatabase database;
  const auto store = database.Open();
  AddGarbage(database, 1200);
  for (const int begin : {501, 1001}) {
    EXPECT_EQ(*store->Purge({100, 10, 500}), 500);
    EXPECT_EQ(database.Run("SELECT begin_position FROM memoryd_garbage")[0][0].as<int>(), begin);
  }
  EXPECT_EQ(*store->Purge({100, 10, 500}), 200);
  EXPECT_EQ(Count(database, "memoryd_garbage"), 0);
}

TEST(SweepTest, BlocksAndJobsOfAGenerationGoInSteps) {
  const TestDatabase database;
  const auto store = database.Open();
  AddBlockGarbage(database, 1200);
  for (const int left : {700, 200}) {
    EXPECT_EQ(*store->Purge({100, 10, 500}), 500);
    EXPECT_EQ(Count(database, "memoryd_jobs"), left);
    EXPECT_EQ(Count(database, "memoryd_garbage"), 1);
  }
  EXPECT_EQ(*store->Purge({100, 10, 500}), 203);
  EXPECT_EQ(Count(database, "memoryd_blocks"), 0);
  EXPECT_EQ(Count(database, "memoryd_garbage"), 0);
}

TEST(SweepTest, WhatAnotherSweeperIsAtKeepsItsEntry) {
  const TestDatabase database;
  StoreOptions options = database.Options();
  options.timeout_ms = 60'000;
  const auto store = database.Open(options);
  AddGarbage(database, 5000);
  pqxx::connection other(database.Url());
  pqxx::work sweeper(other);
  sweeper.exec("DELETE FROM memoryd_messages WHERE position <= 500");
  std::thread purge([&] { EXPECT_EQ(*store->Purge(kNoLimit), 0); });
  // The first 500 are locked: the store's step waits, and then finds nothing of them.
  while (database
             .Run("SELECT 1 FROM pg_stat_activity WHERE datname = current_database() "
                  "AND wait_event_type = 'Lock'")
             .empty()) {
  }
  sweeper.commit();
  purge.join();
  EXPECT_EQ(Count(database, "memoryd_garbage"), 1);
  EXPECT_EQ(*store->Purge(kNoLimit), 4500);
  EXPECT_EQ(Count(database, "memoryd_messages"), 0);
  EXPECT_EQ(Count(database, "memoryd_garbage"), 0);
}

TEST(SweepTest, TwoSweepersLeaveNothing) {
  const TestDatabase database;
  const std::unique_ptr<Store> stores[] = {database.Open(), database.Open()};
  AddGarbage(database, 5000);
  AddBlockGarbage(database, 3000);
  std::vector<std::thread> threads;
  for (const auto& store : stores) {
    threads.emplace_back([&] {
      const auto purged = store->Purge(kNoLimit);
      EXPECT_TRUE(purged.ok()) << purged.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(stores[0]->Purge(kNoLimit).ok());
  EXPECT_EQ(Count(database, "memoryd_jobs"), 0);
  EXPECT_EQ(Count(database, "memoryd_blocks"), 0);
  EXPECT_EQ(Count(database, "memoryd_messages"), 0);
  EXPECT_EQ(Count(database, "memoryd_garbage"), 0);
}

}  // namespace
}  // namespace memoryd
