// Files of a store that somebody removes, replaces, links or damages.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <ios>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error_cause.h"
#include "core/model/message.h"
#include "core/storage/sqlite/log_damage.h"
#include "core/storage/sqlite/sqlite_store.h"
#include "core/storage/sqlite/temporary_folder.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"

namespace memoryd::sqlite {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::size_t kFrame = 24 + 4096;
constexpr std::size_t kHeader = 32;

SessionChange Change(std::int64_t revision, std::size_t bytes = 100) {
  SessionChange change;
  change.key = {"t", "s"};
  change.expected_revision = revision - 1;
  change.row.generation = 1;
  change.row.revision = revision;
  change.row.next_position = revision + 1;
  MessageDraft message;
  message.position = revision;
  message.body = std::string(bytes, 'b');
  change.messages.push_back(message);
  return change;
}

CommitResult CommitOne(Store& store, const SessionChange& change) {
  return store.Commit(std::span(&change, 1)).front();
}

std::string Read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void Write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class OpenFilesTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Store>> Open(const fs::path& path, std::string accept = {}) {
    StoreOptions options;
    options.url = "sqlite:" + path.string();
    options.accept_lost_commits = std::move(accept);
    options.warn = [this](const std::string& line) { warnings_.push_back(line); };
    auto store = OpenSqliteStore(options);
    if (store.ok()) {
      EXPECT_TRUE((*store)->Migrate().ok());
    }
    return store;
  }

  std::unique_ptr<Store> OpenReady(const fs::path& path, std::string accept = {}) {
    auto store = Open(path, std::move(accept));
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  // The files as a kill would leave them.
  fs::path Image(const std::string& name) {
    fs::path image = folder_.path() / name;
    fs::copy_file(file_, image);
    if (fs::exists(Log(file_))) fs::copy_file(Log(file_), Log(image));
    return image;
  }

  static fs::path Log(const fs::path& file) { return file.string() + "-wal"; }

  static std::int64_t RevisionOf(Store& store) {
    const auto loaded = store.LoadSession({"t", "s"}, kAllActive);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() && loaded->has_value() ? (*loaded)->row.revision : 0;
  }

  // Neither a batch nor Ping is answered well from now on.
  static void ExpectShut(Store& store, std::int64_t revision, const std::string& what) {
    EXPECT_EQ(store.Ping().code(), absl::StatusCode::kFailedPrecondition);
    const CommitResult refused = CommitOne(store, Change(revision));
    EXPECT_EQ(refused.outcome, CommitOutcome::kFailed);
    EXPECT_EQ(refused.status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(CauseOf(refused.status).text, HasSubstr(what));
  }

  const TemporaryFolder folder_;
  const fs::path file_ = folder_.path() / "memory.db";
  std::vector<std::string> warnings_;
};

TEST_F(OpenFilesTest, ALockFileThatIsRemovedLetsNobodyElseIn) {
  const auto store = OpenReady(file_);
  fs::remove(file_.string() + ".lock");
  const auto second = Open(file_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("held by another memoryd"));
  EXPECT_EQ(CommitOne(*store, Change(1)).outcome, CommitOutcome::kCommitted);
}

TEST_F(OpenFilesTest, AFileOfTwoNamesIsRefused) {
  { const auto store = OpenReady(file_); }
  fs::create_hard_link(file_, folder_.path() / "link.db");
  for (const fs::path& path : {file_, folder_.path() / "link.db"}) {
    const auto store = Open(path);
    EXPECT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(store.status().message()), HasSubstr("2 hard links"));
  }
  fs::remove(folder_.path() / "link.db");
  EXPECT_NE(OpenReady(file_), nullptr);
}

TEST_F(OpenFilesTest, ALinkMadeMeanwhileLetsNobodyElseIn) {
  const auto store = OpenReady(file_);
  fs::create_hard_link(file_, folder_.path() / "link.db");
  EXPECT_FALSE(Open(folder_.path() / "link.db").ok());
  EXPECT_EQ(CommitOne(*store, Change(1)).outcome, CommitOutcome::kCommitted);
}

TEST_F(OpenFilesTest, AFolderOfTwoPathsIsOneFile) {
  const auto store = OpenReady(file_);
  fs::create_directory_symlink(folder_.path(), folder_.path() / "other");
  EXPECT_FALSE(Open(folder_.path() / "other" / "memory.db").ok());
}

TEST_F(OpenFilesTest, ADatabaseThatOthersMayReadIsSaid) {
  { const auto store = OpenReady(file_); }
  EXPECT_TRUE(warnings_.empty());
  fs::permissions(file_, fs::perms::others_read, fs::perm_options::add);
  const auto store = OpenReady(file_);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("memory.db has mode 0604"));
}

TEST_F(OpenFilesTest, ALogThatIsRemovedShutsTheStoreAndIsSaved) {
  auto store = OpenReady(file_);
  for (std::int64_t i = 1; i <= 20; ++i) {
    ASSERT_EQ(CommitOne(*store, Change(i)).outcome, CommitOutcome::kCommitted);
  }
  fs::remove(Log(file_));
  ExpectShut(*store, 21, "memory.db-wal was removed");
  EXPECT_EQ(RevisionOf(*OpenReady(Image("killed.db"))), 20);
  store.reset();
  EXPECT_EQ(RevisionOf(*OpenReady(file_)), 20);
}

TEST_F(OpenFilesTest, ALogThatIsReplacedShutsTheStore) {
  const auto store = OpenReady(file_);
  ASSERT_EQ(CommitOne(*store, Change(1)).outcome, CommitOutcome::kCommitted);
  const std::string log = Read(Log(file_));
  fs::remove(Log(file_));
  Write(Log(file_), log);
  // The batch that finds out may be stored, and is not acknowledged.
  EXPECT_EQ(CommitOne(*store, Change(2)).outcome, CommitOutcome::kUnknown);
  ExpectShut(*store, 3, "memory.db-wal was replaced");
}

TEST_F(OpenFilesTest, ALogThatIsTruncatedShutsTheStoreAndSpoilsNoPage) {
  for (const bool written : {false, true}) {
    fs::remove_all(folder_.path());
    fs::create_directory(folder_.path());
    auto store = OpenReady(file_);
    ASSERT_EQ(CommitOne(*store, Change(1)).outcome, CommitOutcome::kCommitted);
    // Into the database, which then must stay as it is.
    sqlite3* copier = nullptr;
    ASSERT_EQ(sqlite3_open(file_.c_str(), &copier), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(copier, "PRAGMA wal_checkpoint", nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(copier);
    for (std::int64_t i = 2; i <= 20; ++i) {
      ASSERT_EQ(CommitOne(*store, Change(i)).outcome, CommitOutcome::kCommitted);
    }
    const auto size = fs::file_size(Log(file_));
    fs::resize_file(Log(file_), 0);
    // As when a batch that began before is written behind what is gone: a hole.
    if (written) fs::resize_file(Log(file_), size);
    ExpectShut(*store, 21, "memory.db-wal was truncated");
    store.reset();
    EXPECT_GE(RevisionOf(*OpenReady(file_)), 1) << "the file itself is whole";
  }
}

TEST_F(OpenFilesTest, ADatabaseThatIsRemovedReplacedOrTruncatedShutsTheStore) {
  const auto begin = [this] {
    fs::remove_all(folder_.path());
    fs::create_directory(folder_.path());
    auto store = OpenReady(file_);
    EXPECT_EQ(CommitOne(*store, Change(1)).outcome, CommitOutcome::kCommitted);
    return store;
  };
  {
    const auto store = begin();
    fs::remove(file_);
    ExpectShut(*store, 2, "memory.db was removed");
  }
  {
    const auto store = begin();
    const std::string bytes = Read(file_);
    fs::remove(file_);
    Write(file_, bytes);
    ExpectShut(*store, 2, "memory.db was replaced");
  }
  const auto store = begin();
  fs::resize_file(file_, 0);
  ExpectShut(*store, 2, "memory.db was truncated");
}

TEST_F(OpenFilesTest, AnotherProgramMayWriteCopyAndEmptyTheLog) {
  const auto store = OpenReady(file_);
  std::int64_t revision = 0;
  for (const char* sql :
       {"PRAGMA wal_checkpoint", "PRAGMA wal_checkpoint(RESTART)",
        "PRAGMA wal_checkpoint(TRUNCATE)", "UPDATE memoryd_messages SET checksum = 0",
        "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)"}) {
    for (int i = 0; i < 5; ++i) {
      ASSERT_EQ(CommitOne(*store, Change(++revision, 20'000)).outcome, CommitOutcome::kCommitted);
    }
    sqlite3* other = nullptr;
    ASSERT_EQ(sqlite3_open(file_.c_str(), &other), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(other, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sql;
    sqlite3_close(other);
    EXPECT_TRUE(store->Ping().ok()) << sql << ": " << store->Ping();
  }
  EXPECT_EQ(CommitOne(*store, Change(++revision)).outcome, CommitOutcome::kCommitted);
}

TEST_F(OpenFilesTest, ALogThatIsCopiedManyTimesIsNeverTakenForLost) {
  const auto store = OpenReady(file_);
  for (std::int64_t i = 1; i <= 60; ++i) {
    ASSERT_EQ(CommitOne(*store, Change(i, 1'000'000)).outcome, CommitOutcome::kCommitted);
  }
  EXPECT_TRUE(store->Ping().ok());
}

TEST_F(OpenFilesTest, ALogWithoutItsDatabaseIsNotThrownAway) {
  auto store = OpenReady(file_);
  ASSERT_EQ(CommitOne(*store, Change(1)).outcome, CommitOutcome::kCommitted);
  const fs::path image = Image("image.db");
  fs::remove(image);
  for (int i = 0; i < 2; ++i) {
    const auto opened = Open(image);
    EXPECT_EQ(opened.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr("its log"));
    EXPECT_TRUE(fs::exists(Log(image)));
  }
}

// A store of 50 commits whose process was killed, and where each transaction's frames are.
class LogDamageTest : public OpenFilesTest {
 protected:
  void SetUp() override {
    store_ = OpenReady(file_);
    for (std::int64_t i = 1; i <= 50; ++i) {
      ASSERT_EQ(CommitOne(*store_, Change(i, 6000)).outcome, CommitOutcome::kCommitted);
    }
    log_ = Read(Log(file_));
    frames_ = (log_.size() - kHeader) / kFrame;
    for (std::size_t frame = 0; frame < frames_; ++frame) {
      if (log_.substr(At(frame) + 4, 4) != std::string(4, '\0')) commits_.push_back(frame);
    }
    ASSERT_GE(commits_.size(), 50u);
  }

  static std::size_t At(std::size_t frame) { return kHeader + frame * kFrame; }

  std::optional<LogDamage> Find(const std::string& log) {
    const fs::path path = folder_.path() / "tried-wal";
    Write(path, log);
    const auto damage = FindLogDamage(path.string());
    EXPECT_TRUE(damage.ok()) << damage.status();
    return damage.ok() ? *damage : std::nullopt;
  }

  std::string Flipped(std::size_t byte) const {
    std::string log = log_;
    log[byte] = static_cast<char>(log[byte] ^ 0x10);
    return log;
  }

  std::unique_ptr<Store> store_;
  std::string log_;
  std::size_t frames_ = 0;
  std::vector<std::size_t> commits_;  // Frames that end a transaction.
};

TEST_F(LogDamageTest, AWholeLogAndNoLogAreWell) {
  EXPECT_FALSE(Find(log_).has_value());
  EXPECT_FALSE(Find("").has_value());
  EXPECT_FALSE(Find(log_.substr(0, 20)).has_value());
  const auto none = FindLogDamage((folder_.path() / "none-wal").string());
  EXPECT_TRUE(none.ok() && !none->has_value());
}

TEST_F(LogDamageTest, AFlippedBitInAnyTransactionButTheLastIsDamage) {
  const std::size_t last_begin = commits_[commits_.size() - 2] + 1;
  for (std::size_t frame = 0; frame < last_begin; ++frame) {
    // In a page, in the salt, in the checksum.
    for (const std::size_t place : std::initializer_list<std::size_t>{24 + 1000, 9, 18}) {
      const auto damage = Find(Flipped(At(frame) + place));
      ASSERT_TRUE(damage.has_value()) << "frame " << frame << " of " << frames_ << ", " << place;
      EXPECT_EQ(damage->offset, static_cast<std::int64_t>(At(frame)));
      const auto behind = std::count_if(commits_.begin(), commits_.end(),
                                        [frame](std::size_t commit) { return commit >= frame; });
      EXPECT_LE(damage->commits, behind);
      EXPECT_GE(damage->commits, behind - 1);
    }
  }
}

TEST_F(LogDamageTest, TheLastTransactionTornAnyhowIsALossOfPower) {
  const std::size_t begin = commits_[commits_.size() - 2] + 1;
  for (std::size_t frame = begin; frame < frames_; ++frame) {
    EXPECT_FALSE(Find(Flipped(At(frame) + 24 + 7)).has_value());
    EXPECT_FALSE(Find(Flipped(At(frame) + 18)).has_value());
    // Frames before it were never written: zeros.
    std::string holes = log_;
    holes.replace(At(begin), At(frame) - At(begin), At(frame) - At(begin), '\0');
    EXPECT_FALSE(Find(holes).has_value());
    EXPECT_FALSE(Find(log_.substr(0, At(frame) + 100)).has_value());
  }
}

TEST_F(LogDamageTest, FramesOfAnOlderLogBehindTheEndAreNoDamage) {
  std::string log = log_;
  for (std::size_t frame = 10; frame < frames_; ++frame) log[At(frame) + 8] ^= 1;
  EXPECT_FALSE(Find(log).has_value());
}

// A rolled back or torn transaction that a shorter one was written over: its frames follow from
// each other, but not from the commit before them.
TEST_F(LogDamageTest, WhatIsLeftOfATornTransactionIsNoDamage) {
  const std::size_t middle = commits_[commits_.size() / 2];
  std::string log = log_;
  // The frame behind `middle` is torn, and those behind it stand.
  log.replace(At(middle + 1), kFrame, kFrame, '\0');
  log.resize(At(commits_[commits_.size() / 2 + 1] + 1));
  EXPECT_FALSE(Find(log).has_value());
}

TEST_F(LogDamageTest, ADamagedHeaderIsDamage) {
  for (std::size_t byte = 0; byte < kHeader; ++byte) {
    const auto damage = Find(Flipped(byte));
    ASSERT_TRUE(damage.has_value()) << byte;
    EXPECT_EQ(damage->offset, 0);
    EXPECT_EQ(damage->commits, static_cast<std::int64_t>(commits_.size()));
  }
}

TEST_F(LogDamageTest, ADamagedSectorIsDamage) {
  std::string log = log_;
  log.replace(At(5) - 100, 512, std::string(512, '\x5A'));
  EXPECT_TRUE(Find(log).has_value());
}

TEST_F(LogDamageTest, TheStoreOpensOnlyWithTheLossThatItNames) {
  const fs::path image = Image("image.db");
  const std::size_t frame = commits_[commits_.size() - 11] + 1;
  Write(Log(image), Flipped(At(frame) + 24 + 5));
  const auto refused = Open(image);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kDataLoss);
  const std::string name = fmt::format("10@{}", At(frame));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("--accept-lost-commits=" + name));
  EXPECT_EQ(Read(Log(image)), Flipped(At(frame) + 24 + 5)) << "nothing was touched";
  EXPECT_FALSE(Open(image, "9@" + std::to_string(At(frame))).ok());
  warnings_.clear();
  {
    const auto opened = OpenReady(image, name);
    ASSERT_NE(opened, nullptr);
    EXPECT_EQ(RevisionOf(*opened), 40);
    ASSERT_EQ(warnings_.size(), 1u);
    EXPECT_THAT(warnings_[0], HasSubstr("10 commits behind it are lost"));
    EXPECT_EQ(CommitOne(*opened, Change(41)).outcome, CommitOutcome::kCommitted);
  }
  EXPECT_EQ(RevisionOf(*OpenReady(image, name)), 41) << "the flag may stay";
}

}  // namespace
}  // namespace memoryd::sqlite
