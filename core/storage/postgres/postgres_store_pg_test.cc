#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error_cause.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/postgres/job_queries.h"
#include "core/storage/postgres/migrations.h"
#include "core/storage/postgres/pg_test_support.h"
#include "core/storage/postgres/postgres_store.h"
#include "core/storage/postgres/read_queries.h"
#include "core/storage/schema_steps.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"

namespace memoryd {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

auto Is(CommitOutcome outcome) { return Field(&CommitResult::outcome, outcome); }

CommitResult CommitOne(Store& store, const SessionChange& change) {
  return store.Commit({&change, 1}).front();
}

std::vector<std::string> Bodies(Store& store, const SessionKey& key) {
  std::vector<std::string> bodies;
  const auto loaded = store.LoadSession(key, kAllActive);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  if (loaded.ok() && loaded->has_value()) {
    for (const MessagePtr& message : (*loaded)->active) bodies.emplace_back(message->body);
  }
  return bodies;
}

TEST(PostgresStoreTest, ManyServersMigrateAtOnce) {
  const TestDatabase database;
  std::vector<std::thread> threads;
  std::atomic<int> migrated = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto store = OpenPostgresStore(database.Options());
      ASSERT_TRUE(store.ok()) << store.status();
      const absl::Status status = (*store)->Migrate();
      EXPECT_TRUE(status.ok()) << status;
      if (status.ok()) ++migrated;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(migrated, 8);
  // One row for each version, from 1 to the newest: no migration ran twice.
  const TestDatabase beside;
  beside.Open();
  const char* const versions = "SELECT version FROM memoryd_schema ORDER BY version";
  const pqxx::result raced = database.Run(versions), alone = beside.Run(versions);
  ASSERT_EQ(raced.size(), alone.size());
  for (pqxx::result::size_type i = 0; i < raced.size(); ++i) {
    EXPECT_EQ(raced[i][0].as<int>(), static_cast<int>(i) + 1);
  }
}

TEST(PostgresStoreTest, TheFirstSchemaIsBroughtUpToDateWithItsData) {
  const TestDatabase database;
  SessionChange change = CreateChange("s", 2);
  {
    const auto store = database.Open();
    ASSERT_THAT(CommitOne(*store, change), Is(CommitOutcome::kCommitted));
  }
  database.Run(
      "DROP TABLE memoryd_blocks, memoryd_jobs, memoryd_namespaces, memoryd_items, "
      "memoryd_item_counts, memoryd_item_requests, memoryd_item_garbage, memoryd_forgotten; "
      "ALTER TABLE memoryd_messages DROP COLUMN checksum; "
      "ALTER TABLE memoryd_sessions DROP COLUMN content_generation, DROP COLUMN next_content, "
      "DROP COLUMN content_count, DROP COLUMN block_generation, DROP COLUMN message_bytes, "
      "DROP COLUMN content_bytes, DROP COLUMN edit_revision, DROP COLUMN subject, DROP COLUMN "
      "expire_us, DROP COLUMN drop_us, DROP COLUMN opening, DROP COLUMN has_timed_items; DELETE "
      "FROM "
      "memoryd_schema WHERE "
      "version > 1");
  const auto store = database.Open();
  const auto loaded = store->LoadSession(change.key, kAllActive);
  ASSERT_TRUE(loaded.ok() && loaded->has_value()) << loaded.status();
  EXPECT_EQ((*loaded)->row, change.row);
  EXPECT_EQ((*loaded)->row.content_generation, 0U);
  EXPECT_THAT(Bodies(*store, change.key), ElementsAre("s 1", "s 2"));

  change = NextChange(change, 0);
  change.row.content_generation = FreshNumber();
  change.contents = {MakeMessage(change.row.next_content++, "content")};
  change.row.content_count = 1;
  EXPECT_THAT(CommitOne(*store, change), Is(CommitOutcome::kCommitted));
  EXPECT_EQ((*store->LoadSession(change.key, kAllActive))->row, change.row);
}

TEST(PostgresStoreTest, TheSecondSchemaIsBroughtUpToDateWithItsData) {
  const TestDatabase database;
  SessionChange change = CreateChange("s", 2);
  change.row.content_generation = FreshNumber();
  change.row.next_content = 5;
  change.row.content_count = 4;
  {
    const auto store = database.Open();
    ASSERT_THAT(CommitOne(*store, change), Is(CommitOutcome::kCommitted));
  }
  database.Run(
      "DROP TABLE memoryd_blocks, memoryd_jobs, memoryd_namespaces, memoryd_items, "
      "memoryd_item_counts, memoryd_item_requests, memoryd_item_garbage, memoryd_forgotten; "
      "ALTER TABLE memoryd_messages DROP COLUMN checksum; "
      "ALTER TABLE memoryd_sessions DROP COLUMN block_generation, DROP COLUMN message_bytes, "
      "DROP COLUMN content_bytes, DROP COLUMN edit_revision, DROP COLUMN subject, DROP COLUMN "
      "expire_us, DROP COLUMN drop_us, DROP COLUMN opening, DROP COLUMN has_timed_items; "
      "DELETE FROM memoryd_schema WHERE version > 2");
  const auto store = database.Open();
  const auto loaded = store->LoadSession(change.key, kAllActive);
  ASSERT_TRUE(loaded.ok() && loaded->has_value()) << loaded.status();
  EXPECT_EQ((*loaded)->row, change.row);
  EXPECT_THAT(Bodies(*store, change.key), ElementsAre("s 1", "s 2"));

  change = NextChange(change, 0);
  change.row.block_generation = FreshNumber();
  change.blocks.resize(1);
  change.blocks[0].name = "b";
  change.jobs.resize(1);
  change.jobs[0].key = {change.key, change.row.block_generation, "b", 1};
  EXPECT_THAT(CommitOne(*store, change), Is(CommitOutcome::kCommitted));
  EXPECT_EQ((*store->LoadSession(change.key, kAllActive))->row, change.row);
  EXPECT_EQ((*store->LoadSession(change.key, kAllActive))->blocks, change.blocks);
  EXPECT_TRUE(store->FindJob(change.jobs[0].key)->has_value());
}

// With a backlog of which most is behind jobs that were given back for later, beside much that has
// ended.
TEST(PostgresStoreTest, ClaimingMeetsWhatCanBeClaimedOnly) {
  const TestDatabase database;
  const auto store = database.Open();
  database.Run(
      "INSERT INTO memoryd_sessions SELECT 't', 's' || n, 1, 1, 0, 1, 1, 1, '{}', 0, 0, 0, 1, 1, "
      "false, 1, '', 0, 1, 0, 7 FROM generate_series(1, 2000) n; "
      "INSERT INTO memoryd_blocks SELECT 't', 's' || n, 7, 'b', 10, 21, 0, 1, 1, '' "
      "FROM generate_series(1, 2000) n; "
      "INSERT INTO memoryd_jobs SELECT 't', 's' || n, 7, 'b', i, 1, 1, 2, "
      "CASE WHEN i <= 10 THEN 1 ELSE 0 END, 0, 1, 1, "
      "CASE WHEN i = 11 AND n > 20 THEN 9000000000000000 ELSE n + 2000 * i END, "
      "CASE WHEN i <= 11 THEN 1 ELSE 0 END, 0, 0, '', 0, 0, 0 "
      "FROM generate_series(1, 2000) n, generate_series(1, 20) i");
  database.Run("ANALYZE");
  database.Run("SET plan_cache_mode = force_generic_plan");
  database.Run(fmt::format("PREPARE claimable AS {}", kClaimableJobs.sql));
  std::string plan;
  for (const auto row : database.Run("EXPLAIN (ANALYZE) EXECUTE claimable (false, 1, 8)")) {
    plan += row[0].c_str() + std::string("\n");
  }
  EXPECT_THAT(plan, AllOf(HasSubstr("memoryd_jobs_ready"), Not(HasSubstr("Seq Scan")),
                          Not(HasSubstr("Rows Removed by Filter"))));
  const auto jobs = store->ClaimJobs({1, 1'000'000, 8, false});
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  ASSERT_THAT(*jobs, SizeIs(8));
  for (std::size_t i = 0; i < jobs->size(); ++i) {
    EXPECT_EQ((*jobs)[i].key.session.session, fmt::format("s{}", i + 1));
    EXPECT_EQ((*jobs)[i].key.number, 11);
  }
}

TEST(PostgresStoreTest, AServerThatCantBeReachedIsToldWithItsCause) {
  const TestDatabase database;
  std::string port;
  {
    const TestProxy gone(database.host(), database.port());
    port = gone.port();
  }
  StoreOptions options = database.Options();
  options.url = database.Url("127.0.0.1", port);
  const absl::Status refused = OpenPostgresStore(options).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_EQ(CauseOf(refused).code, "08006");
  EXPECT_THAT(CauseOf(refused).text, AllOf(HasSubstr("Connection refused"), HasSubstr(port)));

  options.url = database.Url() + "_not_there";
  const absl::Status missing = OpenPostgresStore(options).status();
  EXPECT_TRUE(absl::IsUnavailable(missing)) << missing;
  EXPECT_THAT(CauseOf(missing).text, HasSubstr("_not_there\" does not exist"));
}

TEST(PostgresStoreTest, WhatTheServerRefusesIsToldWithItsCause) {
  const TestDatabase database;
  const auto store = database.Open();
  database.Run(
      "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
      "$$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100', DETAIL = 'a row'; END $$; "
      "CREATE TRIGGER full_disk BEFORE INSERT ON memoryd_messages "
      "FOR EACH ROW EXECUTE FUNCTION full_disk()");
  const CommitResult full = CommitOne(*store, CreateChange("s", 1));
  EXPECT_TRUE(absl::IsResourceExhausted(full.status)) << full.status;
  EXPECT_EQ(CauseOf(full.status).code, "53100");
  EXPECT_EQ(CauseOf(full.status).text, "no space left");

  database.Run("ALTER TABLE memoryd_messages RENAME TO elsewhere");
  const absl::Status renamed = store->LoadSession({"t", "s"}, kAllActive).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(renamed)) << renamed;
  EXPECT_EQ(CauseOf(renamed).code, "42P01");
  EXPECT_THAT(CauseOf(renamed).text, HasSubstr("\"memoryd_messages\" does not exist"));
}

TEST(PostgresStoreTest, RefusesANewerSchema) {
  const TestDatabase database;
  const auto store = database.Open();
  database.Run("INSERT INTO memoryd_schema VALUES (1000)");
  EXPECT_TRUE(absl::IsFailedPrecondition(store->Migrate())) << store->Migrate();
}

TEST(PostgresStoreTest, ANewerSchemaStaysWhereAnOlderBinaryCanWorkOnIt) {
  constexpr auto kNewest = static_cast<int>(kReleasedSteps);
  const TestDatabase database;
  const auto store = database.Open();
  database.Run(
      fmt::format("ALTER TABLE memoryd_sessions ADD COLUMN later bigint DEFAULT 1; "
                  "INSERT INTO memoryd_schema VALUES ({0} + 1, {0}), ({0} + 2, {0})",
                  kNewest));
  EXPECT_TRUE(store->Migrate().ok()) << store->Migrate();
  EXPECT_THAT(CommitOne(*store, CreateChange("s", 1)), Is(CommitOutcome::kCommitted));
  EXPECT_EQ(store->Describe()->schema_version, kNewest + 2);
  // One step that it can't bear is enough, and one that says nothing.
  for (const char* const mark : {"{0} + 1", "NULL"}) {
    database.Run(fmt::format("UPDATE memoryd_schema SET readable_from = {} WHERE version = {} + 1",
                             fmt::format(fmt::runtime(mark), kNewest), kNewest));
    EXPECT_TRUE(absl::IsFailedPrecondition(store->Migrate())) << mark;
  }
}

TEST(PostgresStoreTest, ASchemaWithoutMarksGetsThemWithItsNextStep) {
  const TestDatabase database;
  database.Open();
  database.Run(
      fmt::format("ALTER TABLE memoryd_schema DROP COLUMN readable_from; "
                  "DROP TABLE memoryd_forgotten; "
                  "ALTER TABLE memoryd_sessions DROP COLUMN has_timed_items; "
                  "DELETE FROM memoryd_schema WHERE version = {0}",
                  kReleasedSteps));
  database.Open();
  EXPECT_EQ(database.Run("SELECT max(readable_from) FROM memoryd_schema")[0][0].as<int>(),
            static_cast<int>(kPostgresReadableFrom[kReleasedSteps - 1]));
}

TEST(PostgresStoreTest, WaitsForAnotherServersMigrationNoLongerThanForACall) {
  const TestDatabase database;
  StoreOptions options = database.Options();
  options.timeout_ms = 1000;
  const auto store = OpenPostgresStore(options);
  ASSERT_TRUE(store.ok()) << store.status();
  {
    pqxx::connection other(database.Url());
    pqxx::work migration(other);
    migration.exec(fmt::format("SELECT pg_advisory_xact_lock({})", kMigrationLock));
    EXPECT_TRUE(absl::IsUnavailable((*store)->Migrate())) << (*store)->Migrate();
  }
  EXPECT_TRUE((*store)->Migrate().ok());
}

TEST(PostgresStoreTest, AReadWithoutAnAnswerEndsInTime) {
  const TestDatabase database;
  TestProxy proxy(database.host(), database.port());
  StoreOptions options;
  options.url = database.Url("127.0.0.1", proxy.port());
  options.timeout_ms = 1000;
  const auto store = database.Open(options);
  const SessionKey key = {"t", "s"};
  ASSERT_TRUE(store->LoadSession(key, kAllActive).ok());
  proxy.Inject(TestProxy::Fault::kSwallowReply);
  EXPECT_TRUE(absl::IsUnavailable(store->LoadSession(key, kAllActive).status()));
  EXPECT_TRUE(proxy.injected());
  EXPECT_TRUE(store->LoadSession(key, kAllActive).ok());
}

TEST(PostgresStoreTest, ALoadMovesTheConfigurationOnceHoweverManyMessagesThereAre) {
  constexpr std::size_t kConfigBytes = 200'000;
  constexpr int kMessages = 300;
  const TestDatabase database;
  TestProxy proxy(database.host(), database.port());
  StoreOptions options;
  options.url = database.Url("127.0.0.1", proxy.port());
  const auto store = database.Open(options);
  SessionChange change = CreateChange("s", kMessages);
  change.row.config = "{\"a\":\"" + std::string(kConfigBytes, 'x') + "\"}";
  BlockState block;
  change.row.block_generation = FreshNumber();
  for (int i = 0; i < 20; ++i) {
    block.name = fmt::format("b{}", i);
    change.blocks.push_back(block);
  }
  ASSERT_THAT(CommitOne(*store, change), Is(CommitOutcome::kCommitted));

  const std::int64_t before = proxy.replied_bytes();
  const auto loaded = store->LoadSession(change.key, kAllActive);
  const std::int64_t moved = proxy.replied_bytes() - before;
  ASSERT_TRUE(loaded.ok() && loaded->has_value()) << loaded.status();
  EXPECT_EQ((*loaded)->row.config, change.row.config);
  EXPECT_EQ((*loaded)->active.size(), kMessages);
  EXPECT_EQ((*loaded)->blocks.size(), 20U);
  // Bytes are sent in hexadecimal digits; a message takes some 300 bytes with all its columns.
  EXPECT_GT(moved, std::int64_t{2} * kConfigBytes);
  EXPECT_LT(moved, std::int64_t{2} * kConfigBytes + kMessages * 1000);
}

TEST(PostgresStoreTest, TheFirstCallsFindTheirConnectionsOpen) {
  const TestDatabase database;
  TestProxy proxy(database.host(), database.port());
  StoreOptions options;
  options.url = database.Url("127.0.0.1", proxy.port());
  database.Open();
  const auto store = OpenPostgresStore(options);
  ASSERT_TRUE(store.ok()) << store.status();
  proxy.Refuse(true);
  const SessionChange change = CreateChange("s", 1);
  EXPECT_TRUE((*store)->LoadSession(change.key, kAllActive).ok());
  EXPECT_THAT(CommitOne(**store, change), Is(CommitOutcome::kCommitted));
}

TEST(PostgresStoreTest, BatchesLargerThanAStatementsParametersAreWritten) {
  const TestDatabase database;
  const auto store = database.Open();
  std::vector<SessionChange> changes = {CreateChange("huge", 7000)};
  for (int i = 0; i < 900; ++i) changes.push_back(CreateChange(fmt::format("s{}", i), 10));
  for (int i = 0; i < 300; ++i) {
    changes[0].requests.push_back({fmt::format("r{}", i), std::string(32, 'f'), "reply", 5});
  }
  ASSERT_THAT(store->Commit(changes), Each(Is(CommitOutcome::kCommitted)));
  EXPECT_EQ(database.Run("SELECT count(*) FROM memoryd_messages")[0][0].as<int>(), 16000);
  const auto loaded = store->LoadSession(changes[0].key, kAllActive);
  ASSERT_TRUE(loaded.ok());
  ASSERT_THAT((*loaded)->active, SizeIs(7000));
  EXPECT_EQ((*loaded)->active[6999]->body, "huge 7000");
  const std::vector<std::string> ids = {"r0", "none", "r299"};
  const auto requests = store->FindRequests(changes[0].key, ids);
  ASSERT_TRUE(requests.ok());
  EXPECT_TRUE((*requests)[0] && !(*requests)[1] && (*requests)[2]);
}

TEST(PostgresStoreTest, EveryByteComesBackFromListsAndFromArrays) {
  const TestDatabase database;
  const auto store = database.Open();
  std::string bytes = "abc\0def";
  for (int c = 0; c < 256; ++c) bytes += static_cast<char>(c);
  for (const int messages : {2, 200}) {
    SessionChange change = CreateChange(fmt::format("s{}", messages), 0);
    for (int i = 1; i <= messages; ++i) {
      MessageDraft message(*MakeMessage(i, i == 1 ? bytes : ""));
      message.SetMessageId(fmt::format("id-{}", i));
      message.ids.value().calls = {"call", std::string(200, 'x')};
      message.ids.value().results = {std::string("r\0s", 3)};
      change.messages.push_back(message);
    }
    MessageDraft big(*MakeMessage(messages + 1, std::string(1 << 20, '\0')));
    change.messages.push_back(big);
    change.row.next_position = messages + 2;
    change.row.config = bytes;
    change.row.pinned = {1, 2};
    ASSERT_THAT(CommitOne(*store, change), Is(CommitOutcome::kCommitted));
    const auto loaded = store->LoadSession(change.key, kAllActive);
    ASSERT_TRUE(loaded.ok());
    EXPECT_EQ((*loaded)->row, change.row);
    ASSERT_EQ((*loaded)->active.size(), change.messages.size());
    for (std::size_t i = 0; i < change.messages.size(); ++i) {
      const Message& stored = *(*loaded)->active[i];
      const Message& sent = *change.messages[i];
      EXPECT_EQ(stored.body, sent.body);
      EXPECT_EQ(stored.ids->message_id, sent.ids->message_id);
      EXPECT_EQ(stored.ids->calls, sent.ids->calls);
      EXPECT_EQ(stored.ids->results, sent.ids->results);
      EXPECT_EQ(stored.ingest_us, sent.ingest_us);
    }
  }
}

TEST(PostgresStoreTest, TwoStoresRacingOnOneSessionLoseNothing) {
  const TestDatabase database;
  const auto first = database.Open();
  const auto second = database.Open();
  const SessionChange create = CreateChange("s", 0);
  ASSERT_THAT(CommitOne(*first, create), Is(CommitOutcome::kCommitted));
  constexpr int kEach = 30;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Store& store = t % 2 == 0 ? *first : *second;
      for (int done = 0; done < kEach;) {
        const auto loaded = store.LoadSession(create.key, kAllActive);
        ASSERT_TRUE(loaded.ok());
        SessionChange before = create;
        before.row = (*loaded)->row;
        SessionChange change = NextChange(before, 1);
        change.messages[0] =
            MakeMessage(change.messages[0]->position, fmt::format("{} {}", t, done));
        const CommitResult result = CommitOne(store, change);
        if (result.outcome == CommitOutcome::kCommitted) {
          ++done;
        } else {
          ASSERT_THAT(result, Is(CommitOutcome::kRevisionLost));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::string> bodies = Bodies(*first, create.key);
  EXPECT_THAT(bodies, SizeIs(4 * kEach));
  std::sort(bodies.begin(), bodies.end());
  EXPECT_EQ(std::unique(bodies.begin(), bodies.end()), bodies.end());
}

TEST(PostgresStoreTest, LosersAreToldApartAndHurtNobody) {
  const TestDatabase database;
  const auto store = database.Open();
  std::vector<SessionChange> changes;
  for (int i = 0; i < 6; ++i) {
    changes.push_back(CreateChange(fmt::format("s{}", i), 1));
    changes.back().requests.push_back({"r", std::string(32, 'f'), "reply", 5});
    MessageDraft message(*changes.back().messages[0]);
    message.SetMessageId("m");
    changes.back().messages[0] = message;
  }
  ASSERT_THAT(store->Commit(changes), Each(Is(CommitOutcome::kCommitted)));
  std::vector<SessionChange> next;
  for (const SessionChange& change : changes) next.push_back(NextChange(change, 1));
  next[1].expected_revision = 7;
  next[2].requests = changes[2].requests;
  MessageDraft doubled(*next[3].messages[0]);
  doubled.SetMessageId("m");
  next[3].messages[0] = doubled;
  next[4].key.session = "unknown";
  next[5].expected_revision = 0;
  next.push_back(CreateChange("new", 1));
  EXPECT_THAT(store->Commit(next),
              ElementsAre(Is(CommitOutcome::kCommitted), Is(CommitOutcome::kRevisionLost),
                          Is(CommitOutcome::kRequestIdTaken), Is(CommitOutcome::kMessageIdTaken),
                          Is(CommitOutcome::kRevisionLost), Is(CommitOutcome::kRevisionLost),
                          Is(CommitOutcome::kCommitted)));
  EXPECT_EQ(database.Run("SELECT count(*) FROM memoryd_messages")[0][0].as<int>(), 8);
  EXPECT_EQ(database.Run("SELECT count(*) FROM memoryd_sessions")[0][0].as<int>(), 7);
}

TEST(PostgresStoreTest, ALockedSessionDelaysButDoesNotHurtTheOthers) {
  const TestDatabase database;
  StoreOptions options = database.Options();
  options.timeout_ms = 2000;
  const auto store = database.Open(options);
  std::vector<SessionChange> changes;
  for (int i = 0; i < 4; ++i) changes.push_back(CreateChange(fmt::format("s{}", i), 1));
  ASSERT_THAT(store->Commit(changes), Each(Is(CommitOutcome::kCommitted)));
  pqxx::connection other(database.Url());
  pqxx::work transaction(other);
  transaction.exec("SELECT * FROM memoryd_sessions WHERE session = 's1' FOR UPDATE");
  for (SessionChange& change : changes) change = NextChange(change, 1);
  const std::vector<CommitResult> results = store->Commit(changes);
  EXPECT_THAT(results, ElementsAre(Is(CommitOutcome::kCommitted), Is(CommitOutcome::kFailed),
                                   Is(CommitOutcome::kCommitted), Is(CommitOutcome::kCommitted)));
  EXPECT_TRUE(absl::IsUnavailable(results[1].status)) << results[1].status;
  transaction.abort();
  EXPECT_THAT(CommitOne(*store, changes[1]), Is(CommitOutcome::kCommitted));
}

TEST(PostgresStoreTest, GoesOnAfterItsBackendsWereKilled) {
  const TestDatabase database;
  const auto store = database.Open();
  SessionChange change = CreateChange("s", 1);
  ASSERT_THAT(CommitOne(*store, change), Is(CommitOutcome::kCommitted));
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(store->Revisions({&change.key, 1}).ok());
    ASSERT_THAT(Bodies(*store, change.key), SizeIs(i + 1));
    database.TerminateBackends();
    change = NextChange(change, 1);
    EXPECT_THAT(CommitOne(*store, change), Is(CommitOutcome::kCommitted));
    EXPECT_TRUE(store->Ping().ok());
  }
}

TEST(PostgresStoreTest, BackendsKilledUnderWayLoseAndDoubleNothing) {
  const TestDatabase database;
  const auto store = database.Open();
  constexpr int kSessions = 4, kCommits = 60;
  std::atomic<int> running = kSessions;
  std::vector<std::thread> threads;
  for (int s = 0; s < kSessions; ++s) {
    threads.emplace_back([&, s] {
      SessionChange change = CreateChange(fmt::format("s{}", s), 1);
      for (int i = 0; i < kCommits;) {
        const CommitResult result = CommitOne(*store, change);
        if (result.outcome == CommitOutcome::kCommitted) {
          change = NextChange(change, 1);
          ++i;
        } else {
          // A server that is being restarted is a fair answer; a lost revision would be a lie.
          EXPECT_THAT(result, Is(CommitOutcome::kFailed)) << result.status;
          if (result.outcome != CommitOutcome::kFailed) break;
        }
      }
      --running;
    });
  }
  while (running > 0) database.TerminateBackends();
  for (std::thread& thread : threads) thread.join();
  for (int s = 0; s < kSessions; ++s) {
    const std::vector<std::string> bodies = Bodies(*store, {"t", fmt::format("s{}", s)});
    ASSERT_THAT(bodies, SizeIs(kCommits));
    for (int i = 0; i < kCommits; ++i) {
      EXPECT_EQ(bodies[static_cast<std::size_t>(i)], fmt::format("s{} {}", s, i + 1));
    }
  }
}

TEST(PostgresStoreTest, WorksWithoutSessionState) {
  const TestDatabase database;
  StoreOptions options = database.Options();
  options.transaction_pooling = Pooling::kUnnamed;
  const auto store = database.Open(options);
  SessionChange change = CreateChange("s", 1);
  for (int i = 0; i < 4; ++i) {
    ASSERT_THAT(CommitOne(*store, change), Is(CommitOutcome::kCommitted));
    change = NextChange(change, 1);
    EXPECT_THAT(Bodies(*store, change.key), SizeIs(i + 1));
  }
  EXPECT_GT(store->Describe()->unnamed_statements, 4);
  options.coherence = Coherence::kExclusive;
  EXPECT_TRUE(absl::IsFailedPrecondition(OpenPostgresStore(options).status()));
}

TEST(PostgresStoreTest, AnExclusiveStoreHasOneServer) {
  const TestDatabase database;
  StoreOptions options = database.Options();
  options.coherence = Coherence::kExclusive;
  options.timeout_ms = 2000;
  auto first = database.Open(options);
  EXPECT_TRUE(absl::IsFailedPrecondition(OpenPostgresStore(options).status()));
  EXPECT_TRUE(first->Ping().ok());
  database.TerminateBackends();
  EXPECT_TRUE(absl::IsUnavailable(first->Ping())) << "others may have written meanwhile";
  EXPECT_TRUE(first->Ping().ok()) << "the lock is free and can be taken again";
  database.TerminateBackends();
  const auto second = database.Open(options);
  EXPECT_TRUE(absl::IsUnavailable(first->Ping()));
  EXPECT_TRUE(absl::IsFailedPrecondition(first->Ping())) << first->Ping();
  EXPECT_TRUE(second->Ping().ok());
}

TEST(PostgresStoreTest, AReadOnlyServerIsUnavailable) {
  const TestDatabase database;
  const auto store = database.Open();
  const SessionChange change = CreateChange("s", 1);
  database.Run(fmt::format("ALTER DATABASE {} SET default_transaction_read_only = on",
                           database.Run("SELECT current_database()")[0][0].c_str()));
  database.TerminateBackends();
  EXPECT_TRUE(absl::IsUnavailable(store->Ping())) << store->Ping();
  const CommitResult result = CommitOne(*store, change);
  EXPECT_THAT(result, Is(CommitOutcome::kFailed));
  EXPECT_TRUE(absl::IsUnavailable(result.status)) << result.status;
}

// How far a read may look.
enum class Reach {
  kSession,  // Rows of the session, or of the sessions that are named.
  kTenant,   // By design, of all sessions of the tenant.
  kDue,      // By design, of all tenants: what is due, by the index of its time or state.
};

// Fills a store for ReadsTouchTheirSessionAlone; the generation that all of its rows have.
std::string FillManySessions(const TestDatabase& database, Store& store) {
  const SessionChange change = CreateChange("s0", 0);
  EXPECT_THAT(CommitOne(store, change), Is(CommitOutcome::kCommitted));
  const std::string generation = std::to_string(static_cast<std::int64_t>(change.row.generation));
  // The same generation everywhere, so that only the session tells the rows apart. A hundred
  // sessions are of the tenant that is asked.
  database.Run("UPDATE memoryd_sessions SET block_generation = " + generation);
  database.Run(
      "INSERT INTO memoryd_sessions SELECT (jsonb_populate_record(s, jsonb_build_object("
      "'tenant', CASE WHEN n <= 100 THEN 't' ELSE 'u' || n % 20 END, 'session', 's' || n, "
      "'subject', 'of ' || n % 10, 'expire_us', n, 'drop_us', n))).* "
      "FROM memoryd_sessions s, generate_series(1, 3000) n");
  database.Run(
      "INSERT INTO memoryd_messages SELECT tenant, session, generation, "
      "n, 'id' || n, 1, 1, 1, '', 'body' FROM memoryd_sessions, "
      "generate_series(1, 500) n WHERE tenant = 't'");
  database.Run(
      "INSERT INTO memoryd_requests SELECT tenant, session, 'r' || n, 'f', '', 1 "
      "FROM memoryd_sessions, generate_series(1, 3) n");
  database.Run(
      "INSERT INTO memoryd_garbage SELECT tenant, session, n, 1, n "
      "FROM memoryd_sessions, generate_series(0, 1) n");
  database.Run("INSERT INTO memoryd_forgotten SELECT tenant, session, 1 FROM memoryd_sessions");
  database.Run(
      "INSERT INTO memoryd_blocks SELECT tenant, session, generation, 'b' || n, 0, 1, 0, "
      "1, 1, '' FROM memoryd_sessions, generate_series(1, 3) n");
  database.Run(
      "INSERT INTO memoryd_jobs SELECT tenant, session, generation, 'b1', n, generation, "
      "1, 2, CASE WHEN n = 1 AND session < 's11' THEN 0 ELSE 1 END, 1, 1, 1, 1, 1, 0, 0, "
      "'', 0, 0, 0 FROM memoryd_sessions, generate_series(1, 5) n");
  database.Run("ANALYZE");
  return generation;
}

struct ReadCall {
  Query query;
  std::string arguments;
  Reach reach;
  std::string index = {};  // Of what is due.
};

void ExpectIndexCondition(const std::string& line, Reach reach) {
  switch (reach) {
    case Reach::kSession:
      EXPECT_THAT(line, AnyOf(HasSubstr("Index Cond: ((tenant = $1) AND (session = $2)"),
                              HasSubstr("Index Cond: ((tenant = (k.tenant)::text) AND "
                                        "(session = (k.session)::text)")));
      break;
    case Reach::kTenant:
      EXPECT_THAT(line, HasSubstr("(tenant = $1)"));
      break;
    case Reach::kDue:
      break;
  }
}

// Every read, by the plan that holds whatever it is asked: no other key range is touched, and no
// row of another session read and dropped.
TEST(PostgresStoreTest, ReadsTouchTheirSessionAlone) {
  const TestDatabase database;
  const auto store = database.Open();
  const std::string generation = FillManySessions(database, *store);
  const std::string key = "('t', 's50', " + generation;
  const std::vector<ReadCall> calls = {
      {kLoadSession, "('t', 's50', 1000)", Reach::kSession},
      {kReadRange, key + ", 100, 400, 50, 1000000)", Reach::kSession},
      {kReadNewest, key + ", 100, 400, 50, 1000000)", Reach::kSession},
      {kReadPositions, key + ", '{3,5,7}', 1000000)", Reach::kSession},
      {kFindPositions, key + ", '{id3,id5,id9999}')", Reach::kSession},
      {kReadSizes, key + ", 100, 400, 50)", Reach::kSession},
      {kRevisions, "('{t,t}', '{s50,s51}')", Reach::kSession},
      {kFindRequests, "('t', 's50', '{r1,r2,r3}')", Reach::kSession},  // All it has.
      {kCountRequests, "('t', 's50')", Reach::kSession},
      {kListJobs, key + ", 'b1', 0, -1, 5)", Reach::kSession},
      {kFindJob, key + ", 'b1', 1)", Reach::kSession},
      {kListSessions, "('t', 's50', 5, 1000, true, 's', 't')", Reach::kTenant},
      {kListSubject, "('t', 's50', 5, 1000, true, 's', 't', 'of 1', false)", Reach::kTenant},
      {kListLatest, "('t', 's50', 5, 1000, true, 's', 't', 'of 1', 9)", Reach::kTenant},
      {kListGarbage, "('t', 's50', 5)", Reach::kTenant},
      {kReadUsage, "('t')", Reach::kTenant},
      {kListExpiring, "(100, 5, 256)", Reach::kDue, "memoryd_sessions_expire_us"},
      {kListDropping, "(100, 5, 256)", Reach::kDue, "memoryd_sessions_drop_us"},
      {kClaimableJobs, "(false, 0, 5)", Reach::kDue, "memoryd_jobs_ready"},
      {kCountJobs, "", Reach::kDue, "memoryd_jobs_counted"},
  };
  database.Run("SET plan_cache_mode = force_generic_plan");
  for (const ReadCall& call : calls) {
    SCOPED_TRACE(call.query.name);
    database.Run(fmt::format("PREPARE {} AS {}", call.query.name, call.query.sql));
    std::string plan;
    for (const auto row : database.Run(
             fmt::format("EXPLAIN (ANALYZE) EXECUTE {} {}", call.query.name, call.arguments))) {
      const std::string line = row[0].c_str();
      plan += line + "\n";
      if (line.find("Index Cond:") != std::string::npos) ExpectIndexCondition(line, call.reach);
    }
    EXPECT_THAT(plan, HasSubstr("Index Cond:"));
    if (call.reach == Reach::kDue) {
      EXPECT_THAT(plan, HasSubstr(call.index));
    } else {
      EXPECT_THAT(plan, Not(HasSubstr("Seq Scan")));
    }
    if (call.reach == Reach::kSession) {
      EXPECT_THAT(plan, Not(HasSubstr("Rows Removed by Filter")));
    }
  }
}

// What a query's plan says, with a table that is one large session: the worst case for statistics.
TEST(PostgresStoreTest, ReadsOfALargeSessionGoByPrimaryKey) {
  const TestDatabase database;
  const auto store = database.Open();
  SessionChange change = CreateChange("s", 0);
  change.row.next_position = 300'001;
  change.row.watermark = 300'000;
  change.row.pinned = {1, 2};
  ASSERT_THAT(CommitOne(*store, change), Is(CommitOutcome::kCommitted));
  database.Run(
      "INSERT INTO memoryd_messages SELECT s.tenant, s.session, s.generation, n, NULL, 1, 1, 1, "
      "'', "
      "'body' FROM memoryd_sessions s, generate_series(1, 300000) n");
  database.Run("ANALYZE");
  EXPECT_THAT(Bodies(*store, change.key), SizeIs(3));
  const std::string generation = std::to_string(static_cast<std::int64_t>(change.row.generation));
  const std::vector<std::pair<Query, std::string>> calls = {
      {kLoadSession, "('t', 's', 1000)"},
      {kReadRange, "('t', 's', " + generation + ", 1000, 300000, 100, 1000000)"},
      {kReadNewest, "('t', 's', " + generation + ", 1000, 300000, 100, 1000000)"},
  };
  for (const auto& [query, arguments] : calls) {
    database.Run("SET plan_cache_mode = force_generic_plan");
    database.Run(fmt::format("PREPARE {} AS {}", query.name, query.sql));
    std::string plan;
    for (const auto row : database.Run(
             fmt::format("EXPLAIN (ANALYZE, BUFFERS) EXECUTE {} {}", query.name, arguments))) {
      plan += row[0].c_str() + std::string("\n");
    }
    EXPECT_THAT(plan, AllOf(HasSubstr("memoryd_messages_pkey"),
                            Not(HasSubstr("Seq Scan on memoryd_messages"))));
    EXPECT_THAT(plan, Not(HasSubstr("Rows Removed by Filter"))) << query.name;
    if (query.sql == std::string_view(kLoadSession.sql)) continue;
    // From either end the rows of the page come out of the key in their order, and no others.
    EXPECT_THAT(plan, AllOf(HasSubstr(" rows=100 loops=1"), Not(HasSubstr("Sort")))) << query.name;
    EXPECT_THAT(plan, Not(HasSubstr(" rows=299000 loops=1"))) << query.name;
  }
}

}  // namespace
}  // namespace memoryd
