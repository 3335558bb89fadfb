// Sessions found when their time is over, and touched before.
#include <gmock/gmock.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/model/session.h"
#include "core/storage/store.h"
#include "tests/contract/store_fixture.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const SessionKey kKey{"tenant", "session"};

class RetentionContractTest : public StoreTest {
 protected:
  static SessionChange Due(const SessionKey& key, std::int64_t expire_us, std::int64_t drop_us) {
    SessionChange change = NewSession(key);
    change.row.expire_us = expire_us;
    change.row.drop_us = drop_us;
    change.write_expire_us = expire_us > 0;
    change.write_drop_us = drop_us > 0;
    return change;
  }
  std::vector<std::string> List(std::int64_t now_us, std::int64_t max_sessions = 10) {
    const auto listed = store().ListDueSessions(now_us, max_sessions);
    EXPECT_TRUE(listed.ok()) << listed.status();
    std::vector<std::string> ids;
    if (!listed.ok()) return ids;
    for (const DueSession& due : *listed) {
      ids.push_back(due.key.tenant + "/" + due.key.session);
      const auto loaded = Load(due.key);
      EXPECT_TRUE(loaded.has_value());
      if (loaded.has_value()) {
        EXPECT_EQ(loaded->row, due.row);
      }
    }
    return ids;
  }
  void Touch(std::vector<SessionTouch> touches) {
    const absl::Status status = store().TouchSessions(touches);
    EXPECT_TRUE(status.ok()) << status;
  }
};

TEST_P(RetentionContractTest, SessionsOfAllTenantsAreListedByTheirTime) {
  MustCommit(Due({"t1", "never"}, 0, 0));
  MustCommit(Due({"t1", "b"}, 200, 0));
  MustCommit(Due({"t2", "a"}, 100, 0));
  MustCommit(Due({"t3", "later"}, 301, 302));
  MustCommit(Due({"t1", "d"}, 0, 300));
  MustCommit(Due({"t1", "c"}, 0, 250));
  EXPECT_THAT(List(99), IsEmpty());
  EXPECT_THAT(List(100), ElementsAre("t2/a"));
  EXPECT_THAT(List(300), ElementsAre("t2/a", "t1/b", "t1/c", "t1/d"));
  EXPECT_THAT(List(300, 1), ElementsAre("t2/a", "t1/c"));
  EXPECT_THAT(List(300, 0), IsEmpty());
}

TEST_P(RetentionContractTest, ConfigurationsOfSessionsThatAreDueAreReadIfTheyAreSmall) {
  SessionChange small = Due({"t1", "a"}, 100, 0);
  small.write_config = true;
  small.row.config = std::string(kSmallConfigBytes, 'c');
  MustCommit(small);
  SessionChange large = Due({"t1", "b"}, 101, 0);
  large.write_config = true;
  large.row.config = std::string(kSmallConfigBytes + 1, 'c');
  MustCommit(large);
  const auto listed = store().ListDueSessions(200, 10);
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->size(), 2U);
  EXPECT_EQ(listed->front().row, small.row);
  large.row.config = "";
  EXPECT_EQ(listed->back().row, large.row);
}

TEST_P(RetentionContractTest, TimesStayUnlessTheyAreWritten) {
  SessionChange change = Due(kKey, 100, 200);
  MustCommit(change);
  EXPECT_EQ(Load(kKey)->row, change.row);
  change = Following(change);
  change.write_expire_us = change.write_drop_us = false;
  change.row.expire_us = change.row.drop_us = 8;
  MustCommit(change);
  EXPECT_EQ(Load(kKey)->row.expire_us, 100);
  EXPECT_EQ(Load(kKey)->row.drop_us, 200);
  change = Following(change);
  change.write_expire_us = true;
  change.row.expire_us = 0;
  MustCommit(change);
  EXPECT_EQ(Load(kKey)->row.expire_us, 0);
  EXPECT_EQ(Load(kKey)->row.drop_us, 200);
  EXPECT_THAT(List(1000), ElementsAre("tenant/session"));
  change = Following(change);
  change.write_expire_us = false;
  change.write_drop_us = true;
  change.row.drop_us = 0;
  MustCommit(change);
  EXPECT_THAT(List(1000), IsEmpty());
}

TEST_P(RetentionContractTest, WhetherItemsHaveTimesGoesWithWhenToLook) {
  SessionChange change = Due(kKey, 0, 200);
  change.row.has_timed_items = true;
  MustCommit(change);
  EXPECT_EQ(Load(kKey)->row, change.row);
  EXPECT_THAT(List(201), ElementsAre("tenant/session"));
  change = Following(change);
  change.write_drop_us = false;
  change.row.has_timed_items = false;
  MustCommit(change);
  EXPECT_TRUE(Load(kKey)->row.has_timed_items) << "it was not written";
  for (const std::int64_t drop_us : {200, 300, 0}) {
    change = Following(change);
    change.write_drop_us = true;
    change.row.drop_us = drop_us;
    MustCommit(change);
    EXPECT_EQ(Load(kKey)->row, change.row);
  }
}

TEST_P(RetentionContractTest, ATombstoneIsNotListed) {
  const SessionChange change = Due(kKey, 100, 100);
  MustCommit(change);
  MustCommit(Deleting(change, 1000));
  EXPECT_THAT(List(1000), IsEmpty());
}

TEST_P(RetentionContractTest, ATouchRaisesTheTimeAndNothingElse) {
  const SessionKey other{"tenant", "other"};
  const SessionKey foreign{"t2", kKey.session};
  const SessionKey never{"tenant", "never"};
  const SessionChange change = Due(kKey, 100, 0);
  const SessionChange beside = Due(other, 100, 0);
  const SessionChange apart = Due(foreign, 100, 0);
  const SessionChange plain = Due(never, 0, 0);
  for (const SessionChange& each : {change, beside, apart, plain}) MustCommit(each);
  Touch({});
  Touch({{kKey, change.row.generation, 150},
         {never, plain.row.generation, 150},
         {{"tenant", "absent"}, 1, 150},
         {other, beside.row.generation + 1, 150}});
  SessionRow expected = change.row;
  expected.expire_us = 150;
  EXPECT_EQ(Load(kKey)->row, expected);
  for (const SessionChange& each : {beside, apart, plain}) EXPECT_EQ(Load(each.key)->row, each.row);
  Touch({{kKey, change.row.generation, 120}});
  EXPECT_EQ(Load(kKey)->row.expire_us, 150) << "it never falls";
  // No revision has risen, so that who decided before wins.
  SessionChange next = Following(change);
  next.write_expire_us = next.write_drop_us = false;
  MustCommit(next);
  EXPECT_EQ(Load(kKey)->row.expire_us, 150);
}

INSTANTIATE_TEST_SUITE_P(Stores, RetentionContractTest, ::testing::ValuesIn(AllStores()),
                         StoreCaseName);

}  // namespace
}  // namespace memoryd
