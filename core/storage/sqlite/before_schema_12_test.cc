// What binaries of schema 11 and before have left in a file, and what they find there.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/model/session.h"
#include "core/storage/sqlite/sqlite_store.h"
#include "core/storage/sqlite/temporary_folder.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"

namespace memoryd::sqlite {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const SessionKey kKey{"t", "s"};

class BeforeSchema12Test : public ::testing::Test {
 protected:
  BeforeSchema12Test() {
    StoreOptions options;
    options.url = "sqlite:" + file_;
    auto store = OpenSqliteStore(options);
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    EXPECT_TRUE(store_->Migrate().ok());
    EXPECT_EQ(sqlite3_open(file_.c_str(), &db_), SQLITE_OK);
  }
  ~BeforeSchema12Test() override { sqlite3_close(db_); }

  // By the columns and tables that such a binary knows.
  void Execute(const std::string& sql) {
    EXPECT_EQ(sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(db_);
  }
  std::int64_t Number(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(db_, sql, -1, &statement, nullptr), SQLITE_OK);
    EXPECT_EQ(sqlite3_step(statement), SQLITE_ROW);
    const std::int64_t number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return number;
  }

  void Commit(const SessionChange& change) {
    ASSERT_EQ(store_->Commit({&change, 1}).front().outcome, CommitOutcome::kCommitted);
  }
  SessionChange Next() {
    SessionChange change;
    change.key = kKey;
    change.expected_revision = revision_++;
    change.row.generation = 1;
    change.row.revision = revision_;
    return change;
  }
  SessionRow Row() { return store_->LoadSession(kKey, kAllActive).value()->row; }
  std::vector<std::string> Garbage() { return store_->ListGarbage("t", "", 10).value(); }
  void Purge() { EXPECT_TRUE(store_->PurgeSession(kKey, 100)->done); }

  const TemporaryFolder folder_;
  const std::string file_ = (folder_.path() / "store").string();
  std::unique_ptr<Store> store_;
  sqlite3* db_ = nullptr;
  std::int64_t revision_ = 0;
};

TEST_F(BeforeSchema12Test, AnOddTimeSaysThatItemsHaveTimes) {
  Commit(Next());
  for (const bool known : {false, true}) {
    for (const std::int64_t drop_us : {0, 200, 201}) {
      Execute(fmt::format("UPDATE memoryd_sessions SET drop_us = {}, has_timed_items = {}", drop_us,
                          known));
      const SessionRow row = Row();
      EXPECT_EQ(row.drop_us, drop_us == 0 ? 0 : 200);
      EXPECT_EQ(row.has_timed_items, drop_us == 201 || (known && drop_us == 200));
      EXPECT_EQ(store_->ListDueSessions(200, 10)->size(), drop_us == 200 ? 1U : 0U);
    }
  }
}

TEST_F(BeforeSchema12Test, TheyFindTheTimeOdd) {
  for (const bool timed : {true, false}) {
    SessionChange change = Next();
    change.row.drop_us = 200;
    change.row.has_timed_items = timed;
    change.write_drop_us = true;
    Commit(change);
    EXPECT_EQ(Number("SELECT drop_us FROM memoryd_sessions"), timed ? 201 : 200);
    EXPECT_EQ(Number("SELECT has_timed_items FROM memoryd_sessions"), timed ? 1 : 0);
  }
}

TEST_F(BeforeSchema12Test, WhatTheyWouldForgetIsForgotten) {
  SessionChange change = Next();
  change.requests = {{"a", "fingerprint", "reply", 10}, {"b", "fingerprint", "reply", 20}};
  Commit(change);
  Execute(
      "INSERT INTO memoryd_garbage (tenant, session, generation, begin_position, end_position) "
      "VALUES ('t', 's', 0, 0, 20)");
  EXPECT_EQ(*store_->CountRequests(kKey), 1);
  EXPECT_THAT(Garbage(), ElementsAre("s"));
  Purge();
  EXPECT_EQ(*store_->CountRequests(kKey), 1);
  EXPECT_EQ(Number("SELECT count(*) FROM memoryd_requests WHERE fingerprint = x''"), 1);
  EXPECT_THAT(Garbage(), IsEmpty());
}

TEST_F(BeforeSchema12Test, TheyFindWhatIsToBeForgotten) {
  SessionChange change = Next();
  change.requests = {{"a", "fingerprint", "reply", 10}};
  change.forget_requests_before_us = 15;
  Commit(change);
  const char* const theirs =
      "SELECT count(*) FROM memoryd_garbage WHERE tenant = 't' AND session = 's'"
      " AND generation = 0 AND end_position = 15";
  EXPECT_EQ(Number(theirs), 1);
  Purge();
  EXPECT_EQ(Number(theirs), 0);

  // One of them was first.
  change = Next();
  change.forget_requests_before_us = 30;
  Commit(change);
  Execute("DELETE FROM memoryd_garbage");
  EXPECT_THAT(Garbage(), ElementsAre("s"));
  Purge();
  EXPECT_THAT(Garbage(), IsEmpty());
}

}  // namespace
}  // namespace memoryd::sqlite
