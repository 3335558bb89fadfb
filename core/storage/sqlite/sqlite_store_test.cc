// What is SQLite's own; what every store must do is in tests/contract.
#include "core/storage/sqlite/sqlite_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/storage/schema_steps.h"
#include "core/storage/sqlite/temporary_folder.h"
#include "core/storage/sqlite/undone_step.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"

namespace memoryd::sqlite {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& path) {
  StoreOptions options;
  options.url = "sqlite:" + path;
  return OpenSqliteStore(options);
}

std::unique_ptr<Store> OpenReady(const std::string& path) {
  auto store = Open(path);
  EXPECT_TRUE(store.ok()) << store.status();
  EXPECT_TRUE((*store)->Migrate().ok());
  return *std::move(store);
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

SessionChange Revision(std::int64_t revision) {
  SessionChange change;
  change.key = {"t", "s"};
  change.expected_revision = revision - 1;
  change.row.generation = 1;
  change.row.revision = revision;
  return change;
}

CommitOutcome CommitOne(Store& store, const SessionChange& change) {
  return store.Commit(std::span(&change, 1)).front().outcome;
}

void Execute(const std::string& path, const char* sql) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
  sqlite3_close(db);
}

int Mode(const std::filesystem::path& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return static_cast<int>(info.st_mode & 0777);
}

class SqliteStoreTest : public ::testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::string file_ = (folder_.path() / "memory.db").string();
};

TEST_F(SqliteStoreTest, UrlsOfNoFileAreRefusedByName) {
  for (const char* url : {"sqlite:", "postgresql://x", "sqlite"}) {
    StoreOptions options;
    options.url = url;
    const auto store = OpenSqliteStore(options);
    EXPECT_EQ(store.status().code(), absl::StatusCode::kInvalidArgument) << url;
    EXPECT_THAT(Message(store.status()), HasSubstr("store"));
  }
}

class SqliteStorePathTest : public SqliteStoreTest {
 protected:
  void SetUp() override { std::filesystem::current_path(folder_.path()); }
  void TearDown() override { std::filesystem::current_path(before_); }

  const std::filesystem::path before_ = std::filesystem::current_path();
  // What `sqlite:///FORMER` named until SQLAlchemy's meaning was taken, and names no more.
  const std::string former_ = file_.substr(1);
};

TEST_F(SqliteStorePathTest, AnotherFileThanBeforeIsRefusedWhereThatOneIsThere) {
  ASSERT_NE(OpenReady(file_), nullptr);
  StoreOptions options;
  options.url = "sqlite:///" + former_;
  const auto store = OpenSqliteStore(options);
  EXPECT_TRUE(absl::IsFailedPrecondition(store.status())) << store.status();
  EXPECT_THAT(Message(store.status()), HasSubstr("write sqlite:///" + file_ + " to go on"));
  EXPECT_THAT(Message(store.status()), HasSubstr("sqlite:" + former_ + " to begin"));
  EXPECT_FALSE(std::filesystem::exists(former_));
  // Both ways that it names lead on.
  for (const std::string& url : {"sqlite:///" + file_, "sqlite:" + former_, options.url}) {
    StoreOptions named;
    named.url = url;
    EXPECT_TRUE(OpenSqliteStore(named).ok()) << url;
  }
}

TEST_F(SqliteStorePathTest, ThreeSlashesNameAFileInTheWorkingFolder) {
  for (const char* url : {"sqlite:///a.db", "sqlite+aiosqlite:///b.db", "sqlite:///folder/c.db"}) {
    StoreOptions options;
    options.url = url;
    EXPECT_TRUE(OpenSqliteStore(options).ok()) << url;
  }
  for (const char* file : {"a.db", "b.db", "folder/c.db"}) {
    EXPECT_TRUE(std::filesystem::exists(folder_.path() / file)) << file;
  }
}

TEST_F(SqliteStoreTest, FilesAndFoldersAreTheOwnersAlone) {
  const std::filesystem::path file = folder_.path() / "a" / "b" / "memory.db";
  const auto store = OpenReady(file.string());
  EXPECT_EQ(CommitOne(*store, Revision(1)), CommitOutcome::kCommitted);
  EXPECT_EQ(Mode(file), 0600);
  EXPECT_EQ(Mode(file.string() + "-wal"), 0600);
  EXPECT_EQ(Mode(file.string() + ".lock"), 0600);
  EXPECT_EQ(Mode(folder_.path() / "a"), 0700);
  EXPECT_EQ(Mode(folder_.path() / "a" / "b"), 0700);
}

TEST_F(SqliteStoreTest, APathThatCannotBeAFileIsNamed) {
  const auto folder = Open(folder_.path().string());
  EXPECT_EQ(folder.status().code(), absl::StatusCode::kFailedPrecondition);
  std::ofstream(folder_.path() / "plain") << "x";
  const auto below = Open((folder_.path() / "plain" / "memory.db").string());
  EXPECT_EQ(below.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(below.status()), HasSubstr("plain"));
}

TEST_F(SqliteStoreTest, ASecondStoreOnTheFileIsRefusedAndTheFirstGoesOn) {
  auto first = OpenReady(file_);
  std::filesystem::create_symlink(file_, folder_.path() / "link.db");
  for (const std::string& name : {file_, (folder_.path() / "link.db").string()}) {
    const auto second = Open(name);
    EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(Message(second.status()), HasSubstr("memory.db.lock"));
  }
  EXPECT_EQ(CommitOne(*first, Revision(1)), CommitOutcome::kCommitted);
  first.reset();
  EXPECT_EQ(CommitOne(*OpenReady(file_), Revision(2)), CommitOutcome::kCommitted);
}

TEST_F(SqliteStoreTest, ASecondProcessIsRefused) {
  const auto store = OpenReady(file_);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto second = Open(file_);
    ::_exit(second.status().code() == absl::StatusCode::kFailedPrecondition ? 7 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST_F(SqliteStoreTest, AFileOfTheFirstSchemaIsBroughtUpToDateWithItsData) {
  OpenReady(file_).reset();
  Execute(file_, kBackToSchema8);
  Execute(
      file_,
      "DROP TABLE memoryd_blocks;"
      "DROP TABLE memoryd_jobs;"
      "ALTER TABLE memoryd_messages DROP COLUMN checksum;"
      "ALTER TABLE memoryd_sessions DROP COLUMN block_generation;"
      "ALTER TABLE memoryd_sessions DROP COLUMN content_generation;"
      "ALTER TABLE memoryd_sessions DROP COLUMN next_content;"
      "ALTER TABLE memoryd_sessions DROP COLUMN content_count;"
      "ALTER TABLE memoryd_sessions DROP COLUMN message_bytes;"
      "ALTER TABLE memoryd_sessions DROP COLUMN content_bytes;"
      "DROP INDEX memoryd_expiring;"
      "DROP INDEX memoryd_dropping;"
      "ALTER TABLE memoryd_sessions DROP COLUMN expire_us;"
      "ALTER TABLE memoryd_sessions DROP COLUMN drop_us;"
      "DROP INDEX memoryd_subjects;"
      "ALTER TABLE memoryd_sessions DROP COLUMN subject;"
      "ALTER TABLE memoryd_sessions DROP COLUMN edit_revision;"
      "PRAGMA user_version = 1;"
      "INSERT INTO memoryd_sessions VALUES"
      "  ('t', 's', 7, 3, 2, 1, 1, '', 1, 0, 5, 11, 12, 0, 99, x'7B7D'),"
      "  ('t', 'gone', 8, 4, 2, 2, 2, '', 0, 0, 0, 11, 12, 1, 98, x'');"
      "INSERT INTO memoryd_messages VALUES ('t', 's', 7, 1, NULL, 1, 5, 11, NULL, x'626F6479');");
  const auto store = OpenReady(file_);
  const auto loaded = store->LoadSession({"t", "s"}, kAllActive);
  ASSERT_TRUE(loaded.ok() && loaded->has_value()) << loaded.status();
  SessionRow expected;
  expected.generation = 7;
  expected.revision = 3;
  expected.next_position = 2;
  expected.active_count = 1;
  expected.active_tokens = 5;
  expected.create_us = 11;
  expected.update_us = 12;
  expected.commit_tag = 99;
  expected.config = "{}";
  EXPECT_EQ((*loaded)->row, expected);
  ASSERT_EQ((*loaded)->active.size(), 1U);
  EXPECT_EQ((*loaded)->active.front()->body, "body");
  const auto gone = store->LoadSession({"t", "gone"}, kAllActive);
  ASSERT_TRUE(gone.ok() && gone->has_value()) << gone.status();
  EXPECT_TRUE((*gone)->row.deleted);

  SessionChange change = Revision(4);
  change.row = expected;
  change.row.revision = 4;
  change.row.content_generation = 9;
  ContentDraft content;
  content.position = change.row.next_content++;
  change.contents = {content};
  change.row.content_count = 1;
  EXPECT_EQ(CommitOne(*store, change), CommitOutcome::kCommitted);
  EXPECT_EQ((*store->LoadSession({"t", "s"}, kAllActive))->row, change.row);
}

TEST_F(SqliteStoreTest, AFileOfTheSecondSchemaIsBroughtUpToDateWithItsData) {
  SessionChange change = Revision(1);
  change.row.content_generation = 9;
  change.row.next_content = 2;
  change.row.content_count = 1;
  ContentDraft content;
  content.position = 1;
  content.body = "content";
  change.contents = {content};
  {
    const auto store = OpenReady(file_);
    ASSERT_EQ(CommitOne(*store, change), CommitOutcome::kCommitted);
  }
  Execute(file_, kBackToSchema8);
  Execute(file_,
          "DROP TABLE memoryd_blocks;"
          "DROP TABLE memoryd_jobs;"
          "ALTER TABLE memoryd_messages DROP COLUMN checksum;"
          "ALTER TABLE memoryd_sessions DROP COLUMN block_generation;"
          "ALTER TABLE memoryd_sessions DROP COLUMN message_bytes;"
          "ALTER TABLE memoryd_sessions DROP COLUMN content_bytes;"
          "DROP INDEX memoryd_expiring;"
          "DROP INDEX memoryd_dropping;"
          "ALTER TABLE memoryd_sessions DROP COLUMN expire_us;"
          "ALTER TABLE memoryd_sessions DROP COLUMN drop_us;"
          "DROP INDEX memoryd_subjects;"
          "ALTER TABLE memoryd_sessions DROP COLUMN subject;"
          "ALTER TABLE memoryd_sessions DROP COLUMN edit_revision;"
          "PRAGMA user_version = 2;");
  const auto store = OpenReady(file_);
  const auto loaded = store->LoadSession(change.key, kAllActive);
  ASSERT_TRUE(loaded.ok() && loaded->has_value()) << loaded.status();
  EXPECT_EQ((*loaded)->row, change.row);
  EXPECT_TRUE((*loaded)->blocks.empty());
  const auto contents = store->ReadRange(change.key, 9, {0, 10}, 10, 1000);
  ASSERT_TRUE(contents.ok() && contents->size() == 1) << contents.status();
  EXPECT_EQ(contents->front()->body, "content");

  SessionChange next = Revision(2);
  next.row.block_generation = 7;
  next.blocks.resize(1);
  next.blocks[0].name = "b";
  next.jobs.resize(1);
  next.jobs[0].key = {next.key, 7, "b", 1};
  EXPECT_EQ(CommitOne(*store, next), CommitOutcome::kCommitted);
  EXPECT_EQ((*store->LoadSession(next.key, kAllActive))->blocks, next.blocks);
  EXPECT_TRUE(store->FindJob(next.jobs[0].key)->has_value());
}

TEST_F(SqliteStoreTest, ANewerSchemaStopsAnOlderBinary) {
  OpenReady(file_).reset();
  Execute(file_, "PRAGMA user_version = 1000");
  const auto store = Open(file_);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->Migrate().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SqliteStoreTest, ANewerSchemaStaysWhereAnOlderBinaryCanWorkOnIt) {
  constexpr auto kNewest = static_cast<int>(kReleasedSteps);
  OpenReady(file_).reset();
  Execute(file_, fmt::format("ALTER TABLE memoryd_sessions ADD COLUMN later INTEGER DEFAULT 1;"
                             "INSERT INTO memoryd_schema VALUES ({0} + 1, {0}), ({0} + 2, {0});"
                             "PRAGMA user_version = {1};",
                             kNewest, kNewest + 2)
                     .c_str());
  {
    const auto store = OpenReady(file_);
    EXPECT_EQ(CommitOne(*store, Revision(1)), CommitOutcome::kCommitted);
    EXPECT_EQ(store->Describe()->schema_version, kNewest + 2);
  }
  // One step that it can't bear is enough, and one that says nothing.
  for (const char* const change :
       {"UPDATE memoryd_schema SET readable_from = {0} + 1 "
        "WHERE version = {0} + 1",
        "DELETE FROM memoryd_schema WHERE version = {0} + 1", "DROP TABLE memoryd_schema"}) {
    Execute(file_, fmt::format(fmt::runtime(change), kNewest).c_str());
    EXPECT_EQ((*Open(file_))->Migrate().code(), absl::StatusCode::kFailedPrecondition) << change;
  }
}

TEST_F(SqliteStoreTest, AnotherProgramsFileIsLeftAlone) {
  Execute(file_, "CREATE TABLE theirs (x)");
  const auto store = Open(file_);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->Migrate().code(), absl::StatusCode::kFailedPrecondition);

  const std::string text = (folder_.path() / "notes.txt").string();
  std::ofstream(text) << std::string(10'000, 'n');
  const auto no_database = Open(text);
  EXPECT_EQ(no_database.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Message(no_database.status()), HasSubstr("notes.txt"));
}

TEST_F(SqliteStoreTest, MigratingAgainChangesNothing) {
  const auto store = OpenReady(file_);
  EXPECT_EQ(CommitOne(*store, Revision(1)), CommitOutcome::kCommitted);
  EXPECT_TRUE(store->Migrate().ok());
  EXPECT_EQ(CommitOne(*store, Revision(2)), CommitOutcome::kCommitted);
}

TEST_F(SqliteStoreTest, AJobOfAClockThatWasAheadIsDue) {
  const auto store = OpenReady(file_);
  SessionChange change = Revision(1);
  change.row.block_generation = 7;
  change.blocks.emplace_back().name = "block";
  Job& job = change.jobs.emplace_back();
  job.key = {change.key, 7, "block", 1};
  ASSERT_EQ(CommitOne(*store, change), CommitOutcome::kCommitted);
  ClaimRequest request;
  request.lease = 1;
  request.lease_us = 1;
  request.max_jobs = 1;
  const auto claimed_if_due_in = [&](const char* seconds) {
    Execute(file_, fmt::format("UPDATE memoryd_jobs SET lease = 0, due = (strftime('%s') + {}) * "
                               "1000000",
                               seconds)
                       .c_str());
    const auto jobs = store->ClaimJobs(request);
    EXPECT_TRUE(jobs.ok()) << jobs.status();
    return jobs.ok() && jobs->size() == 1;
  };
  EXPECT_TRUE(claimed_if_due_in("-1"));
  EXPECT_FALSE(claimed_if_due_in("600"));
  EXPECT_TRUE(claimed_if_due_in("3600"));
}

TEST_F(SqliteStoreTest, AReplacedFileIsNoticedByPing) {
  const auto store = OpenReady(file_);
  EXPECT_TRUE(store->Ping().ok());
  std::filesystem::remove(file_);
  EXPECT_EQ(store->Ping().code(), absl::StatusCode::kFailedPrecondition);
  std::ofstream(file_) << "";
  EXPECT_EQ(store->Ping().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SqliteStoreTest, PingWaitsForAStrangersLockOnlySoLong) {
  StoreOptions options;
  options.url = "sqlite:" + file_;
  options.timeout_ms = 20;
  const auto store = OpenSqliteStore(options);
  ASSERT_TRUE(store.ok());
  ASSERT_TRUE((*store)->Migrate().ok());
  sqlite3* stranger = nullptr;
  ASSERT_EQ(sqlite3_open(file_.c_str(), &stranger), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(stranger, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_EQ((*store)->Ping().code(), absl::StatusCode::kUnavailable);
  const SessionChange change = Revision(1);
  const CommitResult result = (*store)->Commit(std::span(&change, 1)).front();
  EXPECT_EQ(result.outcome, CommitOutcome::kFailed);
  EXPECT_EQ(result.status.code(), absl::StatusCode::kUnavailable);
  sqlite3_close(stranger);
  EXPECT_TRUE((*store)->Ping().ok());
  EXPECT_EQ(CommitOne(**store, change), CommitOutcome::kCommitted);
}

// Commits in a child that acknowledges each one through a pipe, and kills it in the middle.
TEST_F(SqliteStoreTest, TheLogIsEmptiedUnlessAStrangerReadsIt) {
  const auto store = OpenReady(file_);
  EXPECT_EQ(CommitOne(*store, Revision(1)), CommitOutcome::kCommitted);
  const std::string log = file_ + "-wal";
  EXPECT_GT(std::filesystem::file_size(log), 0U);
  sqlite3* stranger = nullptr;
  ASSERT_EQ(sqlite3_open(file_.c_str(), &stranger), SQLITE_OK);
  const auto run = [stranger](const char* sql) {
    ASSERT_EQ(sqlite3_exec(stranger, sql, nullptr, nullptr, nullptr), SQLITE_OK);
  };
  run("BEGIN; SELECT count(*) FROM memoryd_sessions");
  for (std::int64_t revision = 2; revision < 4; ++revision) {
    const auto held = store->RemoveTraces();
    ASSERT_TRUE(held.ok()) << held.status();
    EXPECT_FALSE(held->removed);
    EXPECT_EQ(CommitOne(*store, Revision(revision)), CommitOutcome::kCommitted);
  }
  run("COMMIT");
  const auto traces = store->RemoveTraces();
  ASSERT_TRUE(traces.ok()) << traces.status();
  EXPECT_TRUE(traces->removed);
  EXPECT_THAT(std::string(traces->left_elsewhere), HasSubstr("VACUUM"));
  EXPECT_EQ(std::filesystem::file_size(log), 0U);
  // The files are still known as those that are open.
  EXPECT_TRUE(store->Ping().ok());
  EXPECT_EQ(CommitOne(*store, Revision(4)), CommitOutcome::kCommitted);
  EXPECT_GT(std::filesystem::file_size(log), 0U);
  sqlite3_close(stranger);
}

class KilledSqliteStoreTest : public SqliteStoreTest {
 protected:
  // Writes to `pipe` each revision that is committed.
  [[noreturn]] void CommitUntilKilled(std::int64_t acknowledged, int pipe) {
    auto store = Open(file_);
    if (!store.ok() || !(*store)->Migrate().ok()) ::_exit(1);
    for (std::int64_t revision = acknowledged + 1;; ++revision) {
      const CommitOutcome outcome = CommitOne(**store, Revision(revision));
      // The one commit that was not acknowledged before the kill may be there.
      if (outcome == CommitOutcome::kRevisionLost && revision == acknowledged + 1) continue;
      if (outcome != CommitOutcome::kCommitted) ::_exit(2);
      if (::write(pipe, &revision, sizeof(revision)) != sizeof(revision)) ::_exit(3);
    }
  }
};

TEST_F(KilledSqliteStoreTest, WhatWasAcknowledgedSurvivesKill) {
  std::int64_t acknowledged = 0;
  for (int run = 0; run < 5; ++run) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) CommitUntilKilled(acknowledged, ends[1]);
    ::close(ends[1]);
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(::read(ends[0], &acknowledged, sizeof(acknowledged)),
                static_cast<ssize_t>(sizeof(acknowledged)));
    }
    ::kill(child, SIGKILL);
    std::int64_t last = 0;
    while (::read(ends[0], &last, sizeof(last)) == sizeof(last)) acknowledged = last;
    ::close(ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "exit " << WEXITSTATUS(status);
    const auto loaded = OpenReady(file_)->LoadSession({"t", "s"}, kAllActive);
    ASSERT_TRUE(loaded.ok() && loaded->has_value());
    EXPECT_GE((*loaded)->row.revision, acknowledged);
    EXPECT_LE((*loaded)->row.revision, acknowledged + 1);
  }
}

TEST_F(SqliteStoreTest, DamageIsFoundAfterAnUncleanStop) {
  {
    const auto store = OpenReady(file_);
    for (std::int64_t revision = 1; revision < 200; ++revision) {
      SessionChange change = Revision(revision);
      MessageDraft message;
      message.position = revision;
      message.body = std::string(900, 'b');
      change.messages.push_back(message);
      ASSERT_EQ(CommitOne(*store, change), CommitOutcome::kCommitted);
    }
  }
  {
    std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(8 * 4096);
    file << std::string(20 * 4096, '\x5A');
  }
  std::ofstream(file_ + "-wal") << "not closed";
  const auto store = Open(file_);
  EXPECT_EQ(store.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Message(store.status()), HasSubstr("memory.db"));
}

TEST_F(SqliteStoreTest, AStoreInMemoryIsItsOwnAndHoldsNoFile) {
  const auto first = OpenReady(":memory:");
  const auto second = OpenReady(":memory:");
  EXPECT_EQ(CommitOne(*first, Revision(1)), CommitOutcome::kCommitted);
  const auto loaded = second->LoadSession({"t", "s"}, kAllActive);
  ASSERT_TRUE(loaded.ok());
  EXPECT_FALSE(loaded->has_value());
  EXPECT_TRUE(first->Ping().ok());
  EXPECT_FALSE(std::filesystem::exists(":memory:"));
}

}  // namespace
}  // namespace memoryd::sqlite
