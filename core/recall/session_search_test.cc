#include "core/recall/session_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/model/ranking_options.h"
#include "core/model/session.h"
#include "core/storage/store.h"
#include "core/writes/commands/put_set_reset.h"
#include "tests/support/search_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SessionSearchTest : public SearchFixture {
 protected:
  absl::StatusOr<Found> Find(std::string_view query, const SessionRow& row,
                             bool accept_missing = false, std::size_t neighbours = 0) {
    return FindIn(*search_, kKey, row, AskFor(query), neighbours, accept_missing);
  }
  std::vector<std::string> FindTexts(std::string_view query) {
    const auto found = Find(query, session_.row);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? Texts(*found) : std::vector<std::string>();
  }
  void SetUp() override {
    SearchFixture::SetUp();
    search_ = std::make_unique<SessionSearch>(store_.get(), &bodies_, kRoomy, &budget_);
  }
  // The rows read by FindTexts(query).
  std::size_t RowsReadBy(std::string_view query) {
    const std::size_t before = store_->range_rows();
    FindTexts(query);
    return store_->range_rows() - before;
  }

  std::unique_ptr<SessionSearch> search_;
};

TEST_F(SessionSearchTest, FindsMessagesAndContentsByTheirWords) {
  Create();
  // Archived, pinned or active: all the same.
  CommitNotes({{"the capital of france"}, {"nothing of it"}}, {{"system", "geography"},
                                                               {"user", "paris is the capital"},
                                                               {"user", "hello"},
                                                               {"user", "capital"}});
  ASSERT_GT(session_.row.archived_count, 0);
  const auto found = Find("capital", session_.row);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(Texts(*found), ElementsAre("message 4: capital", "message 2: paris is the capital",
                                         "content 1: the capital of france"));
  EXPECT_EQ(found->items.front().score, 1);
  EXPECT_EQ(found->row, session_.row);
  EXPECT_THAT(FindTexts("geography"), ElementsAre("message 1: geography"));
  EXPECT_THAT(FindTexts("spain"), IsEmpty());
  EXPECT_THAT(FindTexts(""), IsEmpty());
}

TEST_F(SessionSearchTest, ReadsNoMoreThanWhatCameSinceTheLastSearch) {
  Create();
  for (int i = 0; i < 50; ++i) CommitNotes({{"note"}}, {{"user", "word"}});
  EXPECT_EQ(RowsReadBy("word"), 100U);
  EXPECT_EQ(RowsReadBy("word"), 0U);
  CommitNotes({}, {{"user", "late word"}});
  EXPECT_EQ(RowsReadBy("late"), 1U);
  CommitNotes({{"late note"}});
  EXPECT_EQ(RowsReadBy("late"), 1U);
  EXPECT_THAT(FindTexts("late"), ElementsAre("message 51: late word", "content 51: late note"));
  // A change that leaves messages and contents alone.
  Commit(WithSettings(commands::UpdateSession(), SessionSettings()));
  EXPECT_EQ(RowsReadBy("late"), 0U);
}

TEST_F(SessionSearchTest, EveryCutIsNoticedBeforeTheAnswer) {
  for (const bool swept : {false, true}) {
    for (const ResetScope scope : {ResetScope::kActive, ResetScope::kArchived,
                                   ResetScope::kMessages, ResetScope::kEverything}) {
      SCOPED_TRACE(fmt::format("{} {}", static_cast<int>(scope), swept));
      Create();
      CommitNotes({{"note x"}}, {{"system", "s x"}, {"user", "a x"}, {"user", "b x"}});
      CommitNotes({}, {{"user", "c x"}, {"user", "d x"}});
      EXPECT_THAT(FindTexts("x"), SizeIs(6));
      Commit(Reset(scope));
      // As many come as have gone, so that the row's counts are those of before.
      std::vector<Line> lines;
      for (std::size_t i = 0; i < 5; ++i) lines.push_back({"user", "x new"});
      CommitNotes({{"x new"}}, std::move(lines));
      if (swept) Sweep();
      SessionSearch anew(real_.get(), &bodies_, kRoomy, &budget_);
      const std::vector<std::string> expected =
          Texts(*FindIn(anew, kKey, session_.row, AskFor("x")));
      EXPECT_EQ(FindTexts("x"), expected);
      EXPECT_EQ(
          static_cast<std::int64_t>(expected.size()),
          session_.row.active_count + session_.row.archived_count + session_.row.content_count);
      Commit(Plain(commands::DeleteSession()));
    }
  }
}

TEST_F(SessionSearchTest, ASetAndASessionMadeAnewLeaveNothingOfTheOld) {
  Create();
  CommitNotes({{"old note"}}, {{"user", "old message"}});
  EXPECT_THAT(FindTexts("old"), SizeIs(2));
  Commit(WithContents(Plain(commands::Set(), {{"user", "new message"}}), {{"new note"}}));
  EXPECT_THAT(FindTexts("old"), IsEmpty());
  EXPECT_THAT(FindTexts("new"), ElementsAre("message 2: new message", "content 2: new note"));
  Commit(Plain(commands::DeleteSession()));
  Create();
  EXPECT_THAT(FindTexts("new"), IsEmpty());
  CommitNotes({{"third"}});
  EXPECT_THAT(FindTexts("third"), ElementsAre("content 3: third"));
}

TEST_F(SessionSearchTest, ALaterRowThanTheOneAskedWithIsGoodToo) {
  Create();
  CommitNotes({{"word"}}, {{"user", "first word"}});
  const SessionRow older = session_.row;
  CommitNotes({{"word"}}, {{"user", "second word"}});
  EXPECT_THAT(FindTexts("word"), SizeIs(4));
  const auto found = Find("word", older);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->items, SizeIs(4));
  EXPECT_EQ(found->row, session_.row) << "at least as new as it was asked for";

  // Not over a cut: either may be the later state, since revisions begin anew once the tombstone of
  // a deleted session is gone.
  Commit(Reset(ResetScope::kEverything));
  CommitNotes({}, {{"user", "third word"}});
  EXPECT_THAT(FindTexts("word"), ElementsAre("message 3: third word"));
  EXPECT_TRUE(absl::IsAborted(Find("word", older).status()));
  EXPECT_THAT(FindTexts("word"), ElementsAre("message 3: third word"));
}

TEST_F(SessionSearchTest, AStoreErrorLeavesTheIndexUsable) {
  Create();
  CommitNotes({{"note word"}}, {{"system", "s"}, {"user", "first word"}, {"user", "b"}});
  const absl::Status away = absl::UnavailableError("the store is away");
  const auto fail = [&] { store_->FailReads(away); };
  const auto find = [&] { return Find("word", session_.row).status(); };

  // At the first read of all, and in the middle of it: after the messages, before the contents.
  store_->FailReads(away);
  EXPECT_EQ(find(), away);
  store_->FailReads(absl::OkStatus());
  store_->BeforeNextRows([&] { store_->BeforeNextRows(fail); });
  EXPECT_EQ(find(), away);
  store_->FailReads(absl::OkStatus());
  EXPECT_THAT(FindTexts("word"), ElementsAre("message 2: first word", "content 1: note word"));

  // While it catches up, once between messages and contents.
  for (int reads = 0; reads < 2; ++reads) {
    CommitNotes({{"late word"}}, {{"user", "late word"}});
    if (reads == 0) fail();
    if (reads == 1) store_->BeforeNextRows([&] { store_->BeforeNextRows(fail); });
    EXPECT_EQ(find(), away);
    store_->FailReads(absl::OkStatus());
    EXPECT_THAT(FindTexts("word"), SizeIs(4 + 2 * static_cast<std::size_t>(reads)));
  }
  // And when what was found is read.
  store_->BeforeNextRows(fail);
  EXPECT_EQ(find(), away);
  store_->FailReads(absl::OkStatus());
  EXPECT_THAT(FindTexts("word"), SizeIs(6));
}

TEST_F(SessionSearchTest, AnErrorWhileContentsComeForTheFirstTimeHidesNone) {
  Create();
  CommitNotes({}, {{"user", "word"}});
  EXPECT_THAT(FindTexts("word"), SizeIs(1));
  std::vector<Note> notes(1500, {"word"});
  CommitNotes(std::move(notes));
  // After the first thousand.
  store_->BeforeNextRows([this] {
    store_->BeforeNextRows([this] { store_->FailReads(absl::UnavailableError("away")); });
  });
  EXPECT_TRUE(absl::IsUnavailable(Find("word", session_.row).status()));
  store_->FailReads(absl::OkStatus());
  Commit(WithContents(Plain(commands::Set()), {{"word again"}}));
  EXPECT_THAT(FindTexts("word"), ElementsAre("content 1501: word again"));
}

TEST_F(SessionSearchTest, ABodyThatCannotBeReadHasNoWordsAndHidesNoOther) {
  Create();
  CommitNotes({{"unreadable"}, {"word"}}, {{"user", "unreadable"}, {"user", "word"}});
  EXPECT_THAT(FindTexts("word"), ElementsAre("message 2: word", "content 2: word"));
  EXPECT_THAT(FindTexts("unreadable"), IsEmpty());
  EXPECT_EQ(RowsReadBy("word"), 0U) << "nor is it read again and again";
}

TEST_F(SessionSearchTest, ALargeSessionIsBroughtUpInSteps) {
  Create();
  for (int i = 0; i < 25; ++i) CommitNotes(std::vector<Note>(1000, {"word"}));
  CommitNotes({{"last"}});
  const SessionSearch::Index index = search_->Open(kKey);
  int steps = 1;
  for (; !*search_->CatchUp(index, session_.row, WordsAlone(), false); ++steps) {
    EXPECT_TRUE(absl::IsAborted(search_->Find(index, AskFor("last"), {}, {}, false).status()))
        << "half an index gives no answer";
    // What comes meanwhile is for the steps to come.
    if (steps == 1) CommitNotes({{"later"}});
    ASSERT_LT(steps, 10);
  }
  EXPECT_EQ(steps, 3);
  EXPECT_EQ(store_->range_rows(), 25'002U);
  EXPECT_THAT(FindTexts("later"), ElementsAre("content 25002: later"));
  EXPECT_THAT(FindTexts("last"), SizeIs(1));
}

TEST_F(SessionSearchTest, ASessionThatIsNoMoreTakesNoRoom) {
  Create();
  CommitNotes({}, {{"user", "word"}});
  FindTexts("word");
  search_->Forget({"tenant", "another"});
  EXPECT_GT(search_->ByteSize(), 0U);
  search_->Forget(kKey);
  EXPECT_EQ(search_->ByteSize(), 0U);
  EXPECT_THAT(FindTexts("word"), SizeIs(1));
}

TEST_F(SessionSearchTest, WhatWasCutAndSweptSinceTheRowWasReadIsAborted) {
  Create();
  CommitNotes({{"note word"}}, {{"user", "a word"}, {"user", "b word"}, {"user", "c word"}});
  const SessionRow older = session_.row;
  Commit(Reset(ResetScope::kEverything));
  Sweep();
  EXPECT_TRUE(absl::IsAborted(Find("word", older).status()));
  EXPECT_TRUE(absl::IsAborted(Find("word", older).status())) << "as often as it is asked";
  const auto accepted = Find("word", older, /*accept_missing=*/true);
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_THAT(accepted->items, IsEmpty());
  EXPECT_EQ(accepted->row.revision, older.revision);

  CommitNotes({}, {{"user", "new word"}});
  EXPECT_THAT(FindTexts("word"), ElementsAre("message 4: new word"));
}

TEST_F(SessionSearchTest, WhatIsHalfSweptIsLeftOutOnlyWhenThatIsAccepted) {
  Create();
  CommitNotes({}, {{"user", "a word"}, {"user", "b word"}, {"user", "c word"}});
  const SessionRow older = session_.row;
  Commit(Reset(ResetScope::kArchived));
  Sweep();
  ASSERT_GT(older.archived_count, 0);
  EXPECT_TRUE(absl::IsAborted(Find("word", older).status()));
  const auto accepted = Find("word", older, /*accept_missing=*/true);
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_EQ(static_cast<std::int64_t>(accepted->items.size()), session_.row.active_count);
  // That index was for one answer.
  EXPECT_EQ(static_cast<std::int64_t>(FindTexts("word").size()), session_.row.active_count);
}

TEST_F(SessionSearchTest, WhatGoesBetweenTheSearchAndTheReadIsAbortedToo) {
  Create();
  CommitNotes({{"note word"}}, {{"user", "a word"}, {"user", "b word"}});
  EXPECT_THAT(FindTexts("word"), SizeIs(3));
  const SessionRow row = session_.row;
  const auto cut = [this] {
    Commit(Reset(ResetScope::kMessages));
    Sweep();
  };
  store_->BeforeNextRows(cut);
  EXPECT_TRUE(absl::IsAborted(Find("word", row).status()));

  CommitNotes({}, {{"user", "c word"}});
  EXPECT_THAT(FindTexts("word"), SizeIs(2));
  const SessionRow again = session_.row;
  store_->BeforeNextRows(cut);
  const auto accepted = Find("word", again, /*accept_missing=*/true);
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_THAT(Texts(*accepted), ElementsAre("content 1: note word"));
}

TEST_F(SessionSearchTest, NeighboursStandOnceInAReply) {
  Create();
  std::vector<Line> lines;
  for (const char* text : {"one", "two", "three x", "four", "five x y", "six", "seven"}) {
    lines.push_back({"user", text});
  }
  CommitNotes({{"note x"}}, std::move(lines));
  const auto found = Find("x y", session_.row, false, /*neighbours=*/2);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_THAT(found->items, SizeIs(3));
  const auto neighbours = [&](std::size_t i) { return Bodies(found->items[i].neighbours); };
  EXPECT_EQ(found->items[0].message->body, "five x y");
  EXPECT_THAT(neighbours(0), ElementsAre("four", "six", "seven")) << "`three x` is a result itself";
  EXPECT_EQ(found->items[1].message->body, "three x");
  EXPECT_THAT(neighbours(1), ElementsAre("one", "two"));
  EXPECT_EQ(found->items[2].content->body, "note x");
  EXPECT_THAT(neighbours(2), IsEmpty());
}

TEST_F(SessionSearchTest, TheLeastRecentlyUsedIndexGoesFirst) {
  Create();
  CommitNotes({}, {{"user", "word"}});
  FindTexts("word");
  const std::size_t one = search_->ByteSize();
  ASSERT_GT(one, 0U);
  search_ = std::make_unique<SessionSearch>(store_.get(), &bodies_, 2 * one, &budget_);
  const auto find = [&](const std::string& session) {
    const std::size_t before = store_->range_rows();
    const auto found = FindIn(*search_, {"tenant", session}, session_.row, AskFor("word"), 0, true);
    EXPECT_TRUE(found.ok()) << found.status();
    EXPECT_LE(search_->ByteSize(), 2 * one);
    return store_->range_rows() - before;
  };
  for (const char* other : {"b", "c"}) {
    SessionChange copy = *change_;
    copy.key.session = other;
    copy.expected_revision = 0;
    copy.appends_only = false;
    ASSERT_EQ(real_->Commit({&copy, 1}).front().outcome, CommitOutcome::kCommitted);
  }
  EXPECT_EQ(find("session"), 1U);
  EXPECT_EQ(find("b"), 1U);
  EXPECT_EQ(find("session"), 0U);
  EXPECT_EQ(find("c"), 1U) << "b goes";
  EXPECT_EQ(find("session"), 0U);
  EXPECT_EQ(find("b"), 1U);
}

TEST_F(SessionSearchTest, AnswersAreTheSameBeforeAndAfterEviction) {
  constexpr int kSessions = 10;
  Create();
  std::vector<SessionKey> keys;
  const auto find = [&](SessionSearch& search, const SessionKey& key) {
    const auto found = FindIn(search, key, session_.row, AskFor("word rare7 rare11"), 1, true);
    EXPECT_TRUE(found.ok()) << found.status();
    std::vector<std::string> lines = found.ok() ? Texts(*found) : std::vector<std::string>();
    for (std::size_t i = 0; i < lines.size(); ++i) {
      lines[i] += fmt::format(" {}", found->items[i].score);
    }
    return lines;
  };
  std::vector<Line> lines;
  for (int i = 0; i < 50; ++i) lines.push_back({"user", fmt::format("word rare{}", i)});
  CommitNotes({{"a word noted"}}, std::move(lines));
  for (int i = 0; i < kSessions; ++i) {
    SessionChange copy = *change_;
    copy.key.session = fmt::format("copy{}", i);
    copy.expected_revision = 0;
    ASSERT_EQ(real_->Commit({&copy, 1}).front().outcome, CommitOutcome::kCommitted);
    keys.push_back(copy.key);
  }
  const std::vector<std::string> expected = find(*search_, keys.front());
  ASSERT_THAT(expected, SizeIs(51));
  EXPECT_EQ(search_->evictions(), 0U);
  const std::size_t room = search_->ByteSize() * 7 / 2;
  SessionSearch small(store_.get(), &bodies_, room, &budget_);
  for (int round = 0; round < 3; ++round) {
    for (const SessionKey& key : keys) {
      EXPECT_EQ(find(small, key), expected);
      EXPECT_LE(small.ByteSize(), room);
    }
  }
  EXPECT_EQ(small.evictions(), 3U * kSessions - 3) << "three fit, and are the wrong ones";
}

TEST_F(SessionSearchTest, TheBudgetEvictsIndexesThatNobodySearches) {
  Create();
  CommitNotes({}, {{"user", "word"}});
  ASSERT_THAT(FindTexts("word"), SizeIs(1));
  EXPECT_EQ(budget_.held(), static_cast<std::int64_t>(search_->ByteSize()));
  const SessionSearch::Index in_use = search_->Open(kKey);
  budget_.Shrink();
  EXPECT_EQ(search_->evictions(), 0U);
}

TEST_F(SessionSearchTest, AnIndexThatTheBudgetHasNoRoomForIsRefused) {
  Create();
  std::vector<Line> lines;
  for (int i = 0; i < 500; ++i) lines.push_back({"user", fmt::format("word{} number{}", i, i)});
  CommitNotes({}, std::move(lines));
  MemoryBudget budget(20'000);
  SessionSearch search(store_.get(), &bodies_, kRoomy, &budget);
  EXPECT_EQ(ErrorReason(FindIn(search, kKey, session_.row, AskFor("word1")).status()),
            "MEMORY_SHORT");
  EXPECT_LT(budget.held(), 10'000) << "what was read is let go of";
  MemoryBudget roomy(10'000'000);
  SessionSearch other(store_.get(), &bodies_, kRoomy, &roomy);
  EXPECT_TRUE(FindIn(other, kKey, session_.row, AskFor("word1")).ok());
  roomy.Shrink();
  EXPECT_EQ(other.ByteSize(), 0U);
  EXPECT_EQ(other.evictions(), 1U);
  EXPECT_TRUE(FindIn(other, kKey, session_.row, AskFor("word1")).ok());
}

TEST_F(SessionSearchTest, AnIndexThatThereIsNoRoomForIsMadeForEachSearch) {
  Create();
  CommitNotes({}, {{"user", "word"}});
  SessionSearch none(store_.get(), &bodies_, 1, &budget_);
  for (std::uint64_t searches = 1; searches <= 3; ++searches) {
    const auto found = FindIn(none, kKey, session_.row, AskFor("word"));
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_THAT(Texts(*found), ElementsAre("message 1: word"));
    EXPECT_EQ(none.ByteSize(), 0U);
    EXPECT_EQ(none.evictions(), searches);
  }
}

// Searchers of one session and its writer: every answer has all that was acknowledged before.
TEST_F(SessionSearchTest, ManySearchersSeeEveryWriteBeforeThem) {
  Create();
  constexpr int kWrites = 60;
  Mutex mutex;
  SessionRow row = session_.row;
  int written = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (bool done = false; !done;) {
        SessionRow current;
        int expected = 0;
        {
          MutexLock lock(mutex);
          current = row;
          expected = written;
        }
        done = expected == kWrites;
        const auto found = FindIn(*search_, kKey, current, AskFor("word", 1000), 1);
        ASSERT_TRUE(found.ok()) << found.status();
        EXPECT_GE(static_cast<int>(found->items.size()), 2 * expected);
        EXPECT_GE(found->row.revision, current.revision);
      }
    });
  }
  for (int i = 1; i <= kWrites; ++i) {
    CommitNotes({{"word"}}, {{"user", "word"}});
    MutexLock lock(mutex);
    row = session_.row;
    written = i;
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace memoryd
