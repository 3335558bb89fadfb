// Many threads on one store: nothing is lost, doubled or seen half.
#include <fmt/format.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/store.h"
#include "tests/contract/store_fixture.h"

namespace memoryd {
namespace {

constexpr int kThreads = 8;

using ConcurrencyContractTest = StoreTest;

// Runs `work(thread number)` on all threads at once.
template <typename Work>
void OnAllThreads(const Work& work) {
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&work, i] { work(i); });
  for (std::thread& thread : threads) thread.join();
}

TEST_P(ConcurrencyContractTest, EachSessionsLogIsWhole) {
  constexpr int kCommits = 25;
  constexpr int kSessions = 3;
  OnAllThreads([&](int thread) {
    std::vector<SessionChange> changes;
    changes.reserve(kSessions);
    for (int i = 0; i < kSessions; ++i) {
      changes.push_back(NewSession({"tenant", fmt::format("{} {}", thread, i)}, 1));
    }
    for (int i = 0; i < kCommits; ++i) {
      for (const CommitResult& result : store().Commit(changes)) {
        ASSERT_EQ(result.outcome, CommitOutcome::kCommitted) << result.status;
      }
      for (SessionChange& change : changes) change = Following(change, 2);
    }
  });
  for (int thread = 0; thread < kThreads; ++thread) {
    for (int i = 0; i < kSessions; ++i) {
      const auto loaded = Load({"tenant", fmt::format("{} {}", thread, i)});
      ASSERT_TRUE(loaded.has_value());
      EXPECT_EQ(loaded->row.revision, kCommits);
      ASSERT_EQ(loaded->active.size(), 2U * kCommits - 1);
      for (std::size_t at = 0; at < loaded->active.size(); ++at) {
        EXPECT_EQ(loaded->active[at]->position, static_cast<std::int64_t>(at) + 1);
      }
    }
  }
}

TEST_P(ConcurrencyContractTest, WritersOfOneSessionAreOrderedByRevision) {
  constexpr int kMessages = 12;
  const SessionKey key = {"tenant", "shared"};
  const SessionChange created = NewSession(key, 0);
  MustCommit(created);
  std::atomic<int> lost = 0;
  OnAllThreads([&](int thread) {
    for (int i = 0; i < kMessages;) {
      const auto loaded = store().LoadSession(key, kAllActive);
      ASSERT_TRUE(loaded.ok() && loaded->has_value()) << loaded.status();
      // A row beside messages of another moment would part these.
      ASSERT_EQ(static_cast<std::int64_t>((*loaded)->active.size()), (*loaded)->row.active_count);
      SessionChange before;
      before.key = key;
      before.row = (*loaded)->row;
      SessionChange change = Following(before, 0);
      MessageDraft message = NewMessage(change.row.next_position++);
      message.body = fmt::format("{} {}", thread, i);
      change.messages = {message};
      ++change.row.active_count;
      const SessionChange beside =
          NewSession({"beside", fmt::format("{} {} {}", thread, i, before.row.revision)});
      const std::vector<SessionChange> batch = {change, beside};
      const std::vector<CommitResult> results = store().Commit(batch);
      ASSERT_EQ(results[1].outcome, CommitOutcome::kCommitted) << results[1].status;
      if (results[0].outcome == CommitOutcome::kCommitted) {
        ++i;
      } else {
        ASSERT_EQ(results[0].outcome, CommitOutcome::kRevisionLost) << results[0].status;
        ++lost;
      }
    }
  });
  const auto loaded = Load(key);
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->row.revision, 1 + kThreads * kMessages);
  ASSERT_EQ(loaded->active.size(), static_cast<std::size_t>(kThreads * kMessages));
  std::map<int, int> next;
  for (std::size_t at = 0; at < loaded->active.size(); ++at) {
    EXPECT_EQ(loaded->active[at]->position, static_cast<std::int64_t>(at) + 1);
    const int thread = loaded->active[at]->body.front() - '0';
    EXPECT_EQ(loaded->active[at]->body, fmt::format("{} {}", thread, next[thread]++));
  }
  RecordProperty("lost_revisions", lost.load());
}

// Every commit replaces all messages, so a row and messages of two moments don't fit together.
TEST_P(ConcurrencyContractTest, ALoadSeesOneMoment) {
  constexpr int kMessages = 50;
  const SessionKey key = {"tenant", "replaced"};
  SessionChange change = NewSession(key, kMessages);
  MustCommit(change);
  std::atomic<bool> written = false;
  OnAllThreads([&](int thread) {
    if (thread == 0) {
      for (int i = 0; i < 200; ++i) {
        const std::int64_t begin = change.row.watermark;
        change = Following(change, kMessages);
        change.erase = {{begin, change.messages.front()->position}};
        change.row.watermark = change.messages.front()->position;
        change.row.active_count = kMessages;
        const std::vector<SessionChange> one = {change};
        EXPECT_EQ(store().Commit(one).front().outcome, CommitOutcome::kCommitted);
      }
      written = true;
      return;
    }
    while (!written) {
      const auto loaded = store().LoadSession(key, kAllActive);
      ASSERT_TRUE(loaded.ok() && loaded->has_value()) << loaded.status();
      ASSERT_EQ((*loaded)->active.size(), static_cast<std::size_t>(kMessages));
      ASSERT_EQ((*loaded)->active.front()->position, (*loaded)->row.watermark);
    }
  });
}

TEST_P(ConcurrencyContractTest, PurgingBesideCommitsTakesOnlyGarbage) {
  OnAllThreads([&](int thread) {
    if (thread == 0) {
      for (int i = 0; i < 40; ++i) {
        const auto purged = store().Purge({.now_us = 0, .keep_us = 0, .max_rows = 50});
        ASSERT_TRUE(purged.ok()) << purged.status();
      }
      return;
    }
    SessionChange change = NewSession({"tenant", fmt::format("{}", thread)}, 20);
    for (int i = 0; i < 15; ++i) {
      const std::vector<SessionChange> one = {change};
      ASSERT_EQ(store().Commit(one).front().outcome, CommitOutcome::kCommitted);
      const std::uint64_t old = change.row.generation;
      change = Following(change, 0);
      change.row.generation = old + 1;
      change.row.next_position = 21;
      for (int position = 1; position <= 20; ++position) {
        change.messages.push_back(NewMessage(position));
      }
      change.garbage = {{old, 0, 21}};
    }
  });
  std::int64_t purged = 0;
  do {
    purged = store().Purge({.now_us = 0, .keep_us = 0, .max_rows = 1000}).value_or(0);
  } while (purged == 1000);
  for (int thread = 1; thread < kThreads; ++thread) {
    const SessionKey key = {"tenant", fmt::format("{}", thread)};
    EXPECT_EQ(Load(key)->active.size(), 20U);
    for (std::uint64_t generation = 1; generation < 15; ++generation) {
      EXPECT_THAT(Positions(key, generation), ::testing::IsEmpty());
    }
  }
}

TEST_P(ConcurrencyContractTest, ManyMayMigrateAtOnce) {
  OnAllThreads([&](int) {
    const absl::Status status = store().Migrate();
    EXPECT_TRUE(status.ok()) << status;
  });
  EXPECT_EQ(CommitOne(NewSession({"tenant", "s"})), CommitOutcome::kCommitted);
}

INSTANTIATE_TEST_SUITE_P(Stores, ConcurrencyContractTest, ::testing::ValuesIn(AllStores()),
                         StoreCaseName);

}  // namespace
}  // namespace memoryd
