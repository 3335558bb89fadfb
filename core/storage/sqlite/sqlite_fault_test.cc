// What Commit says must be what a crash right after it would leave behind, whichever write, sync or
// truncation fails on the way.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/sqlite/fault_vfs.h"
#include "core/storage/sqlite/sqlite_store.h"
#include "core/storage/sqlite/temporary_folder.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"

namespace memoryd::sqlite {
namespace {

constexpr int kSessions = 3;

SessionKey Key(int i) { return {"t", fmt::format("s{}", i)}; }

// Raises the session to `revision` and appends one message, big enough to need pages of its own.
// Its block takes in the job before, and gets another one.
SessionChange Change(int i, std::int64_t revision) {
  SessionChange change;
  change.key = Key(i);
  change.expected_revision = revision - 1;
  change.row.generation = 1;
  change.row.revision = revision;
  change.row.next_position = revision + 1;
  change.row.commit_tag = static_cast<std::uint64_t>(revision) * 1000 + static_cast<unsigned>(i);
  MessageDraft message;
  message.position = revision;
  message.body = std::string(5000, 'b');
  change.messages.push_back(message);
  change.row.block_generation = 7;
  BlockState& block = change.blocks.emplace_back();
  block.name = "block";
  block.done = revision - 1;
  block.next = revision + 1;
  block.state = std::string(3000, 's');
  change.jobs.emplace_back().key = {change.key, 7, "block", revision};
  change.ended_jobs.emplace_back().key = {change.key, 7, "block", revision - 1};
  return change;
}

std::vector<SessionChange> Batch(std::int64_t revision) {
  std::vector<SessionChange> changes;
  for (int i = 0; i < kSessions; ++i) changes.push_back(Change(i, revision));
  return changes;
}

std::unique_ptr<Store> Open(const std::filesystem::path& path) {
  StoreOptions options;
  options.url = "sqlite:" + path.string();
  auto store = OpenSqliteStore(options);
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

// The revision of session `i`, whose messages, block and jobs must be those of that revision.
std::int64_t WholeRevision(Store& store, int i) {
  const auto loaded = store.LoadSession(Key(i), kAllActive);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  if (!loaded.ok() || !loaded->has_value()) return 0;
  EXPECT_EQ(static_cast<std::int64_t>((*loaded)->active.size()), (*loaded)->row.revision);
  EXPECT_EQ((*loaded)->blocks.at(0).done, (*loaded)->row.revision - 1);
  JobFilter filter;
  filter.generation = 7;
  filter.max_jobs = 100;
  const auto jobs = store.ListJobs(Key(i), filter);
  EXPECT_TRUE(jobs.ok()) << jobs.status();
  if (!jobs.ok()) return 0;
  EXPECT_EQ(static_cast<std::int64_t>(jobs->size()), (*loaded)->row.revision);
  for (const Job& job : *jobs) {
    EXPECT_EQ(job.state == JobState::kOpen, job.key.number == (*loaded)->row.revision);
  }
  return (*loaded)->row.revision;
}

struct Seen {
  int committed = 0;
  int failed = 0;
  int unknown = 0;
};

// Fails `bad` calls after `good` of a commit; false when it was over before.
bool CommitWithFault(FaultVfs& vfs, std::int64_t good, std::int64_t bad, bool full, Seen& seen) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "live.db";
  const std::unique_ptr<Store> store = Open(file);
  EXPECT_TRUE(store->Migrate().ok());
  for (const CommitResult& result : store->Commit(Batch(1))) {
    EXPECT_EQ(result.outcome, CommitOutcome::kCommitted);
  }

  vfs.Arm(good, bad, full);
  const std::vector<CommitResult> results = store->Commit(Batch(2));
  const bool failed = vfs.failures() > 0;
  vfs.Disarm();

  // What kill -9 would leave: the files as they are, without the shared memory.
  const std::filesystem::path image = folder.path() / "image.db";
  std::filesystem::copy_file(file, image);
  std::filesystem::copy_file(file.string() + "-wal", image.string() + "-wal");
  const std::unique_ptr<Store> crashed = Open(image);
  for (int i = 0; i < kSessions; ++i) {
    const CommitResult& result = results[static_cast<std::size_t>(i)];
    const std::int64_t live = WholeRevision(*store, i);
    const std::int64_t recovered = WholeRevision(*crashed, i);
    switch (result.outcome) {
      case CommitOutcome::kCommitted:
        EXPECT_EQ(live, 2);
        EXPECT_EQ(recovered, 2);
        ++seen.committed;
        break;
      case CommitOutcome::kFailed:
        EXPECT_FALSE(result.status.ok());
        EXPECT_EQ(live, 1);
        EXPECT_EQ(recovered, 1) << "said to be not stored: " << result.status;
        ++seen.failed;
        break;
      case CommitOutcome::kUnknown:
        EXPECT_FALSE(result.status.ok());
        ++seen.unknown;
        break;
      default:
        ADD_FAILURE() << "outcome " << static_cast<int>(result.outcome);
    }
  }

  // Once the disk is well, the store goes on without being opened anew.
  for (int i = 0; i < kSessions; ++i) {
    const std::vector<SessionChange> next = {Change(i, WholeRevision(*store, i) + 1)};
    EXPECT_EQ(store->Commit(next).front().outcome, CommitOutcome::kCommitted);
  }
  return failed;
}

// Fails the first call, the second, … until the commit is through before the fault.
Seen Sweep(FaultVfs& vfs, std::int64_t bad, bool full) {
  Seen seen;
  std::int64_t good = 0;
  while (CommitWithFault(vfs, good, bad, full, seen)) ++good;
  EXPECT_GT(good, 5) << "the faults never met the commit";
  return seen;
}

TEST(SqliteFaultTest, OneFailingCallIsSettledForSure) {
  FaultVfs vfs;
  const Seen seen = Sweep(vfs, /*bad=*/1, /*full=*/false);
  EXPECT_GT(seen.failed, 0);
  EXPECT_EQ(seen.unknown, 0);
}

TEST(SqliteFaultTest, AFileThatKeepsFailingLeavesOnlyTheEndUnknown) {
  FaultVfs vfs;
  const Seen seen = Sweep(vfs, /*bad=*/INT64_MAX, /*full=*/false);
  EXPECT_GT(seen.failed + seen.unknown, 0);
}

// Whether the header of the file says that it is written through a log.
bool UsesTheLog(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string header(20, '\0');
  in.read(header.data(), static_cast<std::streamsize>(header.size()));
  return in.good() && header[18] == 2 && header[19] == 2;
}

TEST(SqliteFaultTest, AFileThatIsOpenUsesTheLogWhateverFailedBefore) {
  FaultVfs vfs;
  int refused = 0;
  for (std::int64_t good = 0;; ++good) {
    const TemporaryFolder folder;
    const std::filesystem::path file = folder.path() / "new.db";
    StoreOptions options;
    options.url = "sqlite:" + file.string();
    vfs.Arm(good, /*bad=*/1, /*full=*/false);
    auto store = OpenSqliteStore(options);
    const bool failed = vfs.failures() > 0;
    vfs.Disarm();
    if (!store.ok()) {
      ++refused;
      store = OpenSqliteStore(options);
    }
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_TRUE(UsesTheLog(file)) << "call " << good;
    if (!failed) break;
  }
  EXPECT_GT(refused, 0);
}

TEST(SqliteFaultTest, AFullDiskStoresNothingAndSaysSo) {
  FaultVfs vfs;
  const Seen seen = Sweep(vfs, /*bad=*/1, /*full=*/true);
  EXPECT_GT(seen.failed, 0);

  const TemporaryFolder folder;
  const std::unique_ptr<Store> store = Open(folder.path() / "full.db");
  ASSERT_TRUE(store->Migrate().ok());
  vfs.Arm(0, INT64_MAX, /*full=*/true);
  const std::vector<CommitResult> results = store->Commit(Batch(1));
  vfs.Disarm();
  for (const CommitResult& result : results) {
    EXPECT_EQ(result.outcome, CommitOutcome::kFailed);
    EXPECT_EQ(result.status.code(), absl::StatusCode::kResourceExhausted);
  }
}

TEST(SqliteFaultTest, ACommitIsSyncedBeforeItIsAcknowledged) {
  FaultVfs vfs;
  const TemporaryFolder folder;
  const std::unique_ptr<Store> store = Open(folder.path() / "synced.db");
  ASSERT_TRUE(store->Migrate().ok());
  for (std::int64_t revision = 1; revision <= 5; ++revision) {
    const std::int64_t before = vfs.syncs();
    ASSERT_EQ(store->Commit(Batch(revision)).front().outcome, CommitOutcome::kCommitted);
    EXPECT_GE(vfs.syncs(), before + 1);
  }
}

}  // namespace
}  // namespace memoryd::sqlite
