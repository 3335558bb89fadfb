// Sessions found by their subject, and what of one session goes for good.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/model/session.h"
#include "core/storage/store.h"
#include "tests/contract/store_fixture.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const SessionKey kKey{"tenant", "session"};

class SubjectContractTest : public StoreTest {
 protected:
  static SessionChange NewAbout(const SessionKey& key, const std::string& subject) {
    SessionChange change = NewSession(key);
    change.write_config = true;
    change.row.subject = subject;
    return change;
  }
  std::vector<std::string> List(std::string_view tenant, std::string_view subject,
                                std::string_view after = "", std::int64_t max_sessions = 10,
                                bool tombstones = false) {
    const auto listed =
        store().ListSubject(tenant, subject, after, {.max_sessions = max_sessions}, tombstones);
    EXPECT_TRUE(listed.ok()) << listed.status();
    std::vector<std::string> ids;
    if (!listed.ok()) return ids;
    for (const ListedSession& session : listed->sessions) {
      EXPECT_EQ(session.row.subject, subject);
      ids.push_back(session.session);
    }
    return ids;
  }
  std::vector<std::string> Garbage(std::string_view after = "", std::int64_t max_sessions = 10) {
    const auto listed = store().ListGarbage("tenant", after, max_sessions);
    EXPECT_TRUE(listed.ok()) << listed.status();
    return listed.value_or(std::vector<std::string>());
  }
  std::int64_t Requests(const SessionKey& key) {
    const auto count = store().CountRequests(key);
    EXPECT_TRUE(count.ok()) << count.status();
    return count.value_or(-1);
  }
  SessionPurge Purge(const SessionKey& key, std::int64_t max_rows) {
    const auto purged = store().PurgeSession(key, max_rows);
    EXPECT_TRUE(purged.ok()) << purged.status();
    EXPECT_LE(purged.ok() ? purged->rows : 0, max_rows);
    return purged.value_or(SessionPurge());
  }
};

TEST_P(SubjectContractTest, SessionsAreListedByTheirSubjectAndTenant) {
  for (const char* session : {"b", "a", "c"}) MustCommit(NewAbout({"tenant", session}, "ada"));
  MustCommit(NewAbout({"tenant", "d"}, "Ada"));
  MustCommit(NewAbout({"tenant", "e"}, "ad"));
  MustCommit(NewAbout({"other", "f"}, "ada"));
  MustCommit(NewSession({"tenant", "g"}));
  EXPECT_THAT(List("tenant", "ada"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(List("tenant", "ada", "", 2), ElementsAre("a", "b"));
  EXPECT_THAT(List("tenant", "ada", "b", 2), ElementsAre("c"));
  EXPECT_THAT(List("other", "ada"), ElementsAre("f"));
  EXPECT_THAT(List("tenant", "a%"), IsEmpty());
  EXPECT_THAT(List("tenant", "'; --"), IsEmpty());
}

TEST_P(SubjectContractTest, IdsOfAPrefixAreListed) {
  for (const char* session : {"a", "ab", "ab1", "ab2", "ab\xF4\x8F\xBF\xBF", "ac", "b"}) {
    MustCommit(NewAbout({"tenant", session}, "ada"));
  }
  MustCommit(NewAbout({"tenant", "ab3"}, "bob"));
  const auto list = [this](std::string_view subject, std::string_view prefix,
                           std::string_view after, std::int64_t max_sessions) {
    const SessionListLimits limits{.max_sessions = max_sessions, .prefix = prefix};
    const auto listed = subject.empty()
                            ? store().ListSessions("tenant", after, limits)
                            : store().ListSubject("tenant", subject, after, limits, false);
    EXPECT_TRUE(listed.ok()) << listed.status();
    std::vector<std::string> ids;
    if (!listed.ok()) return ids;
    for (const ListedSession& session : listed->sessions) ids.push_back(session.session);
    if (listed->more) ids.emplace_back("more");
    return ids;
  };
  for (const bool all : {true, false}) {
    const std::string subject = all ? "" : "ada";
    EXPECT_THAT(list(subject, "ab", "", 3), ElementsAre("ab", "ab1", "ab2", "more"));
    EXPECT_THAT(list(subject, "ab", "ab2", 3),
                all ? std::vector<std::string>({"ab3", "ab\xF4\x8F\xBF\xBF"})
                    : std::vector<std::string>({"ab\xF4\x8F\xBF\xBF"}));
    EXPECT_THAT(list(subject, "ab", "a", 1), ElementsAre("ab", "more"));
    EXPECT_THAT(list(subject, "ac", "", 1), ElementsAre("ac"));
    EXPECT_THAT(list(subject, "ab", "b", 3), IsEmpty());
    EXPECT_THAT(list(subject, "a%", "", 3), IsEmpty());
  }
}

TEST_P(SubjectContractTest, TheLatestChangedAreListedFirst) {
  const std::vector<std::pair<std::string, std::int64_t>> changes = {
      {"a", 30}, {"b", 10}, {"c", 30}, {"d", 20}, {"x", 40}};
  for (const auto& [session, update_us] : changes) {
    SessionChange change = NewAbout({"tenant", session}, session == "x" ? "bob" : "ada");
    change.row.update_us = update_us;
    MustCommit(change);
  }
  const SessionChange gone = NewAbout({"tenant", "e"}, "ada");
  MustCommit(gone);
  MustCommit(Deleting(gone, 0));
  const auto list = [this](const LatestPlace& after, const SessionListLimits& limits) {
    const auto listed = store().ListLatest("tenant", "ada", after, limits);
    EXPECT_TRUE(listed.ok()) << listed.status();
    std::string text;
    if (!listed.ok()) return text;
    for (const ListedSession& session : listed->sessions) {
      EXPECT_EQ(session.row.config.empty(), !limits.with_configs);
      text += session.session;
    }
    return text + (listed->more ? "+" : "");
  };
  EXPECT_EQ(list({}, {.max_sessions = 10}), "acdb");
  EXPECT_EQ(list({}, {.max_sessions = 2}), "ac+");
  EXPECT_EQ(list({30, "a"}, {.max_sessions = 2}), "cd+");
  EXPECT_EQ(list({30, "c"}, {.max_sessions = 2}), "db");
  EXPECT_EQ(list({10, "b"}, {.max_sessions = 2}), "");
  EXPECT_EQ(list({}, {.max_sessions = 10, .max_bytes = 0}), "a+");
  EXPECT_EQ(list({}, {.max_sessions = 10, .with_configs = false}), "acdb");
  EXPECT_EQ(list({}, {.max_sessions = 10, .prefix = "d"}), "d");
}

TEST_P(SubjectContractTest, ItChangesWithTheConfigurationAlone) {
  SessionChange change = NewAbout(kKey, "ada");
  MustCommit(change);
  change = Following(change);
  change.write_config = false;
  change.row.subject = "not written";
  MustCommit(change);
  EXPECT_EQ(Load(kKey)->row.subject, "ada");
  change = Following(change);
  change.write_config = true;
  change.row.subject = "bob";
  MustCommit(change);
  EXPECT_THAT(List("tenant", "ada"), IsEmpty());
  EXPECT_THAT(List("tenant", "bob"), ElementsAre(kKey.session));
  change = Following(change);
  change.write_config = true;
  change.row.subject = "";
  MustCommit(change);
  EXPECT_THAT(List("tenant", "bob"), IsEmpty());
  EXPECT_EQ(Load(kKey)->row.subject, "");
}

TEST_P(SubjectContractTest, ATombstoneIsListedWhereItIsAskedFor) {
  const SessionChange change = NewAbout(kKey, "ada");
  MustCommit(change);
  SessionChange deleted = Deleting(change, 1000);
  deleted.write_config = true;
  deleted.row.subject = "ada";
  MustCommit(deleted);
  EXPECT_THAT(List("tenant", "ada"), IsEmpty());
  EXPECT_THAT(List("tenant", "ada", "", 10, /*tombstones=*/true), ElementsAre(kKey.session));
}

TEST_P(SubjectContractTest, OnlyOneSessionsGarbageGoes) {
  const SessionKey other{"tenant", "other"};
  const SessionKey foreign{"t2", kKey.session};
  for (const SessionKey& key : {kKey, other, foreign}) {
    SessionChange change = NewSession(key, 250);
    change.row.block_generation = 5;
    change.blocks.resize(1);
    change.blocks[0].name = "block";
    change.blocks[0].entry_generation = 6;
    change.blocks[0].next_entry = 2;
    change.entries.push_back({6, NewMessage(1)});
    change.jobs.resize(3);
    for (std::size_t i = 0; i < change.jobs.size(); ++i) {
      change.jobs[i].key.block = "block";
      change.jobs[i].key.number = static_cast<std::int64_t>(i) + 1;
    }
    MustCommit(change);
    SessionChange deleted = Deleting(change, 1000);
    deleted.row.block_generation = 0;
    deleted.garbage.push_back({5, 0, 1});
    MustCommit(deleted);
  }
  EXPECT_THAT(Garbage(), ElementsAre(other.session, kKey.session));
  EXPECT_THAT(Garbage(other.session), ElementsAre(kKey.session));
  EXPECT_THAT(Garbage("", 1), ElementsAre(other.session));

  SessionPurge purged = Purge(kKey, 100);
  EXPECT_EQ(purged.rows, 100);
  EXPECT_FALSE(purged.done);
  for (int calls = 0; !purged.done; purged = Purge(kKey, 100)) ASSERT_LT(++calls, 20);
  EXPECT_THAT(Positions(kKey, 1), IsEmpty());
  // Named by a row of its block alone.
  EXPECT_THAT(Positions(kKey, 6), IsEmpty());
  JobFilter jobs;
  jobs.generation = 5;
  jobs.max_jobs = 10;
  EXPECT_TRUE(store().ListJobs(kKey, jobs)->empty());
  EXPECT_EQ(store().ListJobs(other, jobs)->size(), 3U);
  EXPECT_EQ(Positions(other, 1).size(), 250U);
  EXPECT_EQ(Positions(foreign, 1).size(), 250U);
  EXPECT_THAT(Garbage(), ElementsAre(other.session));
  purged = Purge(kKey, 100);
  EXPECT_EQ(purged.rows, 0);
  EXPECT_TRUE(purged.done);
}

TEST_P(SubjectContractTest, RecordsFromBeforeATimeAreForgottenAndStay) {
  const auto with_requests = [](SessionChange change) {
    for (int i = 0; i < 300; ++i) {
      change.requests.push_back({fmt::format("r{}", i), "fingerprint", "reply", 1000 + i});
    }
    return change;
  };
  const SessionKey other{"tenant", "other"};
  SessionChange change = with_requests(NewSession(kKey));
  MustCommit(change);
  MustCommit(with_requests(NewSession(other)));
  EXPECT_EQ(Requests(kKey), 300);
  change = Following(change);
  change.forget_requests_before_us = 1250;
  MustCommit(change);

  // What is to be forgotten does not count.
  EXPECT_EQ(Requests(kKey), 50);
  SessionPurge purged = Purge(kKey, 100);
  EXPECT_EQ(purged.rows, 100);
  EXPECT_FALSE(purged.done);
  EXPECT_EQ(Requests(kKey), 50);
  for (int calls = 0; !purged.done; purged = Purge(kKey, 100)) ASSERT_LT(++calls, 20);
  EXPECT_EQ(Requests(kKey), 50);
  EXPECT_EQ(Requests(other), 300);
  const std::vector<std::string> ids = {"r0", "r249", "r250"};
  const auto records = store().FindRequests(kKey, ids);
  ASSERT_TRUE(records.ok()) << records.status();
  for (const std::size_t forgotten : std::initializer_list<std::size_t>{0, 1}) {
    ASSERT_TRUE((*records)[forgotten].has_value());
    EXPECT_EQ((*records)[forgotten]->fingerprint + (*records)[forgotten]->reply, "");
  }
  EXPECT_EQ((*records)[2]->reply, "reply");
  // The id is taken all the same.
  SessionChange again = Following(change);
  again.requests = {{"r0", "f", "reply", 5000}};
  EXPECT_EQ(CommitOne(again), CommitOutcome::kRequestIdTaken);
}

TEST_P(SubjectContractTest, TheSweeperForgetsToo) {
  SessionChange change = NewSession(kKey);
  change.requests.push_back({"r", "fingerprint", "reply", 1000});
  change.forget_requests_before_us = 1001;
  MustCommit(change);
  EXPECT_THAT(Garbage(), ElementsAre(kKey.session));
  const auto swept = store().Purge({2000, 100'000, 100});
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_EQ(Requests(kKey), 0);
  EXPECT_THAT(Garbage(), IsEmpty());
}

TEST_P(SubjectContractTest, TheLaterTimeToForgetHolds) {
  for (const bool rises : {true, false}) {
    SCOPED_TRACE(rises);
    SessionChange change = NewSession({"tenant", rises ? "rises" : "falls"});
    change.requests.push_back({"a", "fingerprint", "reply", 1000});
    change.requests.push_back({"b", "fingerprint", "reply", 2000});
    change.forget_requests_before_us = rises ? 1001 : 2001;
    MustCommit(change);
    change = Following(change);
    change.forget_requests_before_us = rises ? 2001 : 1001;
    MustCommit(change);
    EXPECT_EQ(Requests(change.key), 0);
    SessionPurge purged;
    for (int calls = 0; !purged.done; purged = Purge(change.key, 100)) ASSERT_LT(++calls, 20);
    EXPECT_EQ(Requests(change.key), 0);
  }
  EXPECT_THAT(Garbage(), IsEmpty());
}

TEST_P(SubjectContractTest, TracesAreRemovedAgainAndAgain) {
  MustCommit(NewAbout(kKey, "ada"));
  for (int i = 0; i < 3; ++i) {
    const auto traces = store().RemoveTraces();
    ASSERT_TRUE(traces.ok()) << traces.status();
    EXPECT_TRUE(traces->removed);
    MustCommit(NewSession({"tenant", "other" + std::to_string(i)}));
  }
  EXPECT_THAT(List("tenant", "ada"), ElementsAre(kKey.session));
}

INSTANTIATE_TEST_SUITE_P(Stores, SubjectContractTest, ::testing::ValuesIn(AllStores()),
                         StoreCaseName);

}  // namespace
}  // namespace memoryd
