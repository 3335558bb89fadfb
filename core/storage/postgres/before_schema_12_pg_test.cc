// What servers of schema 11 and before leave in a store, and what they find there.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/model/session.h"
#include "core/storage/postgres/pg_test_support.h"
#include "core/storage/store.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class BeforeSchema12PgTest : public ::testing::Test {
 protected:
  void Commit(const SessionChange& change) {
    ASSERT_EQ(store_->Commit({&change, 1}).front().outcome, CommitOutcome::kCommitted);
  }
  std::int64_t Number(const std::string& sql) {
    return database_.Run(sql)[0][0].as<std::int64_t>();
  }
  std::vector<std::string> Garbage() {
    return store_->ListGarbage(change_.key.tenant, "", 10).value();
  }
  void Purge() { EXPECT_TRUE(store_->PurgeSession(change_.key, 100)->done); }

  const TestDatabase database_;
  const std::unique_ptr<Store> store_ = database_.Open();
  SessionChange change_ = CreateChange("s", 0);
};

TEST_F(BeforeSchema12PgTest, AnOddTimeSaysThatItemsHaveTimes) {
  Commit(change_);
  for (const char* const known : {"NULL", "false", "true"}) {
    for (const std::int64_t drop_us : {0, 200, 201}) {
      database_.Run(fmt::format("UPDATE memoryd_sessions SET drop_us = {}, has_timed_items = {}",
                                drop_us, known));
      const SessionRow row = store_->LoadSession(change_.key, kAllActive).value()->row;
      EXPECT_EQ(row.drop_us, drop_us == 0 ? 0 : 200);
      EXPECT_EQ(row.has_timed_items,
                drop_us == 201 || (known == std::string("true") && drop_us == 200));
      EXPECT_EQ(store_->ListDueSessions(200, 10)->size(), drop_us == 200 ? 1U : 0U);
    }
  }
}

TEST_F(BeforeSchema12PgTest, TheyFindTheTimeOdd) {
  Commit(change_);
  for (const bool timed : {true, false}) {
    change_ = NextChange(change_, 0);
    change_.row.drop_us = 200;
    change_.row.has_timed_items = timed;
    change_.write_drop_us = true;
    Commit(change_);
    EXPECT_EQ(Number("SELECT drop_us FROM memoryd_sessions"), timed ? 201 : 200);
    EXPECT_EQ(Number("SELECT has_timed_items::int FROM memoryd_sessions"), timed ? 1 : 0);
  }
}

TEST_F(BeforeSchema12PgTest, WhatTheyWouldForgetIsForgotten) {
  change_.requests = {{"a", "fingerprint", "reply", 10}, {"b", "fingerprint", "reply", 20}};
  Commit(change_);
  database_.Run(
      "INSERT INTO memoryd_garbage SELECT tenant, session, 0, 0, 20 FROM memoryd_sessions");
  EXPECT_EQ(*store_->CountRequests(change_.key), 1);
  EXPECT_THAT(Garbage(), ElementsAre("s"));
  Purge();
  EXPECT_EQ(*store_->CountRequests(change_.key), 1);
  EXPECT_EQ(Number("SELECT count(*) FROM memoryd_requests WHERE fingerprint = ''"), 1);
  EXPECT_THAT(Garbage(), IsEmpty());
}

TEST_F(BeforeSchema12PgTest, TheyFindWhatIsToBeForgotten) {
  change_.requests = {{"a", "fingerprint", "reply", 10}};
  change_.forget_requests_before_us = 15;
  Commit(change_);
  const std::string theirs =
      "SELECT count(*) FROM memoryd_garbage WHERE session = 's' AND generation = 0 "
      "AND end_position = 15";
  EXPECT_EQ(Number(theirs), 1);
  Purge();
  EXPECT_EQ(Number(theirs), 0);

  // One of them was first.
  change_ = NextChange(change_, 0);
  change_.forget_requests_before_us = 30;
  Commit(change_);
  database_.Run("DELETE FROM memoryd_garbage");
  EXPECT_THAT(Garbage(), ElementsAre("s"));
  Purge();
  EXPECT_THAT(Garbage(), IsEmpty());
}

}  // namespace
}  // namespace memoryd
