#include "core/recall/recall.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/model/session_config.h"
#include "core/recall/recent_recalls.h"
#include "core/recall/session_search.h"
#include "core/recall/update_context.h"
#include "core/sessions/session_info.h"
#include "core/writes/commands/put_set_reset.h"
#include "tests/support/search_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class RecallTest : public SearchFixture {
 protected:
  std::unique_ptr<Recall> recall_;
  std::int64_t asked_us_ = 0;  // When a context is updated.

  void SetUp() override {
    SearchFixture::SetUp();
    recall_ = std::make_unique<Recall>(store_.get(), &bodies_, kRoomy, &budget_);
  }

  SessionInfo Info() { return {session_.row, session_.config}; }

  // As the engine asks: the index first, where one is needed.
  template <typename Request>
  auto Ask(const SessionInfo& info, const Request& request, bool accept_missing)
      -> decltype(recall_->Answer(info, nullptr, request, accept_missing)) {
    SessionSearch::Index index;
    if (Recall::NeedsIndex(info, request)) {
      index = recall_->search().Open(request.key);
      for (bool done = false; !done;) {
        MEMORYD_ASSIGN_OR_RETURN(
            done, recall_->search().CatchUp(index, info.row, info.config->ranking, accept_missing));
      }
    }
    return recall_->Answer(info, index, request, accept_missing);
  }

  absl::StatusOr<Found> Query(const SessionInfo& info, std::string query,
                              bool accept_missing = false) {
    QueryRequest request;
    request.key = kKey;
    request.query = std::move(query);
    return Ask(info, request, accept_missing);
  }
  absl::StatusOr<Found> Query(std::string query) { return Query(Info(), std::move(query)); }

  struct Said {
    std::string role;
    std::string text;
    friend bool operator==(const Said&, const Said&) = default;
  };
  // The new context, as the server puts it together.
  static std::vector<Said> Joined(const std::vector<Said>& context, const UpdatedContext& updated) {
    std::vector<Said> joined;
    for (std::size_t i = 0; i <= updated.kept.size(); ++i) {
      for (const InsertedMessage& inserted : updated.insertions.messages) {
        if (inserted.before == i) joined.push_back({inserted.role, inserted.text});
      }
      if (i == updated.kept.size()) break;
      const KeptMessage& kept = updated.kept[i];
      joined.push_back(context[kept.index]);
      if (kept.texts.has_value()) joined.back().text = kept.texts->front();
    }
    return joined;
  }
  absl::StatusOr<UpdatedContext> TryUpdate(const SessionInfo& info,
                                           const std::vector<Said>& context,
                                           bool accept_missing = false) {
    UpdateContextRequest request;
    request.key = kKey;
    for (const Said& said : context) {
      request.messages.push_back({said.role, {said.text}, /*only_text=*/true, {}});
    }
    request.now_us = asked_us_;
    return Ask(info, request, accept_missing);
  }
  // What was recalled for a question is forgotten by the time of the next.
  UpdatedContext Update(const std::vector<Said>& context) {
    asked_us_ += 2 * RecentRecalls::kKeptForUs;
    return UpdateSoon(context);
  }
  UpdatedContext UpdateSoon(const std::vector<Said>& context) {
    auto updated = TryUpdate(Info(), context);
    EXPECT_TRUE(updated.ok()) << updated.status();
    return updated.ok() ? *std::move(updated) : UpdatedContext();
  }
  std::vector<Said> Context(const std::vector<Said>& context) {
    return Joined(context, Update(context));
  }

  // `long_term` tokens for contents and what is recalled; two messages of one word stay active.
  void CreateWith(std::int64_t long_term) {
    SessionSettings settings = WordSettings();
    settings.token_limit = long_term + 10;
    settings.chat_history_token_ratio = 10.0 / static_cast<double>(long_term + 10);
    settings.token_flush_size = 1;
    Commit(WithSettings(commands::CreateSession(), settings));
  }
  // So that all before it is archived.
  void Archive() { CommitNotes({}, {{"user", "filler"}, {"user", "filler"}}); }
  void CreateList() {
    Commit(WithSettings(commands::CreateSession(), WordSettings(Profile::kAutogenList)));
  }
};

TEST_F(RecallTest, AQueryOfAnUnknownSessionIsEmpty) {
  const auto found = Query("word");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->items, IsEmpty());
  EXPECT_EQ(found->row.revision, 0);
}

TEST_F(RecallTest, AQueryOfAListIsAllItsContentsInOrder) {
  CreateList();
  EXPECT_THAT(Query("")->items, IsEmpty());
  CommitNotes({{"red"}, {"green"}, {"red green"}}, {{"user", "red"}});
  for (const char* query : {"red", "", "nothing like it"}) {
    const auto found = Query(query);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_THAT(Texts(*found),
                ElementsAre("content 1: red", "content 2: green", "content 3: red green"));
    EXPECT_EQ(found->items.front().score, 0);
    EXPECT_EQ(found->row, session_.row);
  }
}

TEST_F(RecallTest, AListTooLargeForAReplyIsRefused) {
  CreateList();
  const std::string mebibyte(std::size_t{1} << 20, 'x');
  for (int i = 0; i < 8; ++i) CommitNotes({{mebibyte}});
  EXPECT_THAT(TryUpdate(Info(), {})->found.items, SizeIs(8));
  CommitNotes({{"y"}});
  EXPECT_EQ(ErrorReason(TryUpdate(Info(), {}).status()), "REPLY_TOO_LARGE")
      << "since the text stands in the reply twice";
  for (int i = 9; i < 64; ++i) CommitNotes({{mebibyte}});
  EXPECT_THAT(Query("")->items, SizeIs(64));
  CommitNotes({{mebibyte}});
  for (const bool accept_missing : {false, true}) {
    EXPECT_EQ(ErrorReason(Query(Info(), "", accept_missing).status()), "REPLY_TOO_LARGE");
  }
}

TEST_F(RecallTest, AListSweptSinceItWasAskedForIsAborted) {
  CreateList();
  CommitNotes({{"one"}, {"two"}});
  const SessionInfo older = Info();
  Commit(Reset(ResetScope::kEverything));
  Sweep();
  EXPECT_TRUE(absl::IsAborted(Query(older, "").status()));
  EXPECT_THAT(Query(older, "", true)->items, IsEmpty());
  EXPECT_TRUE(absl::IsAborted(TryUpdate(older, {}).status()));
  EXPECT_TRUE(TryUpdate(older, {}, true)->insertions.messages.empty());
}

TEST_F(RecallTest, AListsUpdateAddsOneSystemMessageEachTime) {
  CreateList();
  const std::vector<Said> context = {{"user", "hi"},
                                     {"system", "<memoryd_memory>\n</memoryd_memory>"}};
  EXPECT_EQ(Context(context), context);
  CommitNotes({{"one"}, {"two"}});
  const Said added = {"system",
                      "\nRelevant memory content (in chronological order):\n1. one\n2. two\n"};
  const std::vector<Said> once = Context(context);
  EXPECT_THAT(once, ElementsAre(context[0], context[1], added));
  EXPECT_THAT(Context(once), ElementsAre(context[0], context[1], added, added));
  EXPECT_EQ(Update(context).insertions.stable_prefix_hash, "");
  EXPECT_THAT(Texts(Update(context).found), ElementsAre("content 1: one", "content 2: two"));
}

TEST_F(RecallTest, AnUpdateForAnUnknownSessionTakesOldMemoryOut) {
  const std::vector<Said> context = {
      {"system", "be kind"}, {"system", "<memoryd_memory>\nx\n</memoryd_memory>"}, {"user", "hi"}};
  EXPECT_THAT(Context(context), ElementsAre(context[0], context[2]));
  EXPECT_EQ(Update(context).found.row.revision, 0);
}

TEST_F(RecallTest, AnUpdatePutsInContentsAndTheArchivedMessagesThatAnswer) {
  CreateWith(100);
  now_us_ = 1'700'000'000'000'000;
  CommitNotes({{"the user likes tea"}}, {{"user", "paris is the capital of france"},
                                         {"user", "madrid is the capital of spain"},
                                         {"user", "nothing of it"}});
  Archive();
  const std::vector<Said> context = {{"system", "be kind"}, {"user", "the capital?"}};
  const UpdatedContext updated = Update(context);
  EXPECT_THAT(
      Joined(context, updated),
      ElementsAre(
          context[0],
          Said{"system", "<memoryd_memory>\n<item>the user likes tea</item>\n</memoryd_memory>"},
          Said{"user",
               "<memoryd_recall>\n"
               "<message role=\"user\" date=\"2023-11-14\">paris is the capital of france"
               "</message>\n"
               "<message role=\"user\" date=\"2023-11-14\">madrid is the capital of spain"
               "</message>\n"
               "</memoryd_recall>"},
          context[1]))
      << "what was said stands in the order in which it was said";
  EXPECT_THAT(Texts(updated.found), ElementsAre("content 1: the user likes tea",
                                                "message 1: paris is the capital of france",
                                                "message 2: madrid is the capital of spain"));
  EXPECT_EQ(updated.contents_left_out, 0);
}

TEST_F(RecallTest, UpdatingTenTimesChangesNothingAfterTheFirst) {
  CreateWith(60);
  std::vector<Line> lines;
  for (int i = 0; i < 12; ++i) lines.push_back({"user", fmt::format("tea number {}", i)});
  CommitNotes({{"tea is hot"}, {"coffee too"}}, std::move(lines));
  Archive();
  std::vector<Said> context = Context({{"system", "be kind"}, {"user", "which tea?"}});
  ASSERT_THAT(context, SizeIs(4));
  for (int i = 0; i < 10; ++i) {
    const std::vector<Said> again = Context(context);
    EXPECT_EQ(again, context);
    context = again;
  }
}

TEST_F(RecallTest, WhatTheContextHoldsIsNotRecalled) {
  CreateWith(100);
  CommitNotes({}, {{"user", "red house"}, {"system", "red river"}, {"user", "red stone"}});
  Archive();
  EXPECT_THAT(Texts(Update({{"user", "red"}}).found), SizeIs(3));
  EXPECT_THAT(Texts(Update({{"assistant", "red house"}, {"user", "red"}}).found),
              ElementsAre("message 2: red river", "message 3: red stone"));
  // Joined with memory's own text it is in the context nevertheless, and will be without it.
  const std::vector<Said> joined = {
      {"system", "red river\n\n<memoryd_memory>\nx\n</memoryd_memory>"}, {"user", "red"}};
  const std::vector<Said> once = Context(joined);
  EXPECT_THAT(once[1].text, Not(HasSubstr("red river")));
  EXPECT_EQ(Context(once), once);
}

TEST_F(RecallTest, NothingIsRecalledTwice) {
  CreateWith(100);
  CommitNotes({}, {{"user", "red"}, {"user", "red house"}, {"user", "red"}, {"user", "red"}});
  Archive();
  // Of three that are the same, the one that stands between two that match.
  EXPECT_THAT(Texts(Update({{"user", "red?"}}).found),
              ElementsAre("message 2: red house", "message 3: red"));
}

TEST_F(RecallTest, ActiveMessagesAreNotRecalled) {
  CreateWith(100);
  CommitNotes({}, {{"system", "red"}, {"user", "red one"}, {"user", "red two"}, {"user", "red"}});
  ASSERT_EQ(session_.row.archived_count, 2);
  EXPECT_THAT(Texts(Update({{"user", "red"}}).found),
              ElementsAre("message 2: red one", "message 3: red two"));
}

TEST_F(RecallTest, WhatIsRecalledStaysUntilTheNextHumansMessage) {
  CreateWith(100);
  CommitNotes({}, {{"user", "red one"}});
  Archive();
  std::vector<Said> context = {{"user", "red"}};
  const std::vector<Said> first = Joined(context, UpdateSoon(context));
  ASSERT_THAT(first, SizeIs(2));
  for (int step = 0; step < 3; ++step) {
    CommitNotes({}, {{"assistant", fmt::format("red step {}", step)}});
    Archive();
    context.push_back({"assistant", fmt::format("step {}", step)});
    const UpdatedContext updated = UpdateSoon(context);
    EXPECT_THAT(Texts(updated.found), ElementsAre("message 1: red one"));
    const std::vector<Said> now = Joined(context, updated);
    ASSERT_GE(now.size(), first.size());
    EXPECT_TRUE(std::equal(first.begin(), first.end(), now.begin()));
  }
  context.push_back({"user", "red"});
  EXPECT_THAT(UpdateSoon(context).found.items, SizeIs(4)) << "asked anew";
}

TEST_F(RecallTest, NothingStaysNothingUntilTheNextHumansMessage) {
  CreateWith(100);
  EXPECT_THAT(UpdateSoon({{"user", "red"}}).found.items, IsEmpty());
  CommitNotes({}, {{"user", "red one"}});
  Archive();
  EXPECT_THAT(UpdateSoon({{"user", "red"}, {"assistant", "x"}}).found.items, IsEmpty());
  EXPECT_THAT(UpdateSoon({{"user", "red"}, {"assistant", "x"}, {"user", "red!"}}).found.items,
              SizeIs(1));
}

TEST_F(RecallTest, WhatIsGoneIsRecalledNoMore) {
  CreateWith(100);
  CommitNotes({}, {{"user", "red one"}, {"user", "red two"}});
  Archive();
  const std::vector<Said> context = {{"user", "red"}};
  EXPECT_THAT(UpdateSoon(context).found.items, SizeIs(2));
  Commit(Reset(ResetScope::kEverything));
  EXPECT_EQ(Joined(context, UpdateSoon(context)), context);
}

TEST_F(RecallTest, AListRefusesToAlternateRoles) {
  CreateList();
  UpdateContextRequest request;
  request.key = kKey;
  request.alternate_roles = true;
  const absl::Status status = Ask(Info(), request, false).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("alternate_roles"));
}

TEST_F(RecallTest, NothingIsRecalledWithoutAQuestion) {
  CreateWith(100);
  CommitNotes({}, {{"user", "red"}});
  Archive();
  EXPECT_THAT(Context({}), IsEmpty());
  EXPECT_THAT(Context({{"assistant", "red"}}), SizeIs(1));
  EXPECT_THAT(Context({{"user", "blue"}}), SizeIs(1));
  EXPECT_THAT(Context({{"user", "red"}, {"user", "?"}}), SizeIs(2));
}

TEST_F(RecallTest, AtMostFiveAreRecalledAndAsManyAsFit) {
  CreateWith(100);
  std::vector<Line> lines;
  for (int i = 0; i < 9; ++i) lines.push_back({"user", fmt::format("red {}", i)});
  CommitNotes({}, std::move(lines));
  Archive();
  EXPECT_THAT(Update({{"user", "red"}}).found.items, SizeIs(5));

  // Six tokens each; the long one, which has fourteen, is passed over for what fits: those beside
  // it.
  Commit(Plain(commands::DeleteSession()));
  CreateWith(13);
  CommitNotes({}, {{"user", "red x"},
                   {"user", "red red red red red red red red red red"},
                   {"user", "red y"},
                   {"user", "red z"}});
  Archive();
  EXPECT_THAT(Texts(Update({{"user", "red"}}).found),
              ElementsAre("message 12: red x", "message 14: red y"));
}

TEST_F(RecallTest, TheNewestContentsThatFitMakeThePrefix) {
  // Three quarters of it: 45. Each content has its words and 8.
  CreateWith(60);
  CommitNotes({{"one two"}, {"three four five"}, {"six seven eight nine"}, {"ten eleven"}});
  EXPECT_THAT(Texts(Update({}).found), SizeIs(4));
  CommitNotes({{"twelve thirteen"}});
  const UpdatedContext updated = Update({});
  EXPECT_THAT(Texts(updated.found),
              ElementsAre("content 2: three four five", "content 3: six seven eight nine",
                          "content 4: ten eleven", "content 5: twelve thirteen"));
  EXPECT_EQ(updated.contents_left_out, 1);
  // One that does not fit is passed over for older ones that do.
  std::string large;
  for (int i = 0; i < 40; ++i) large += "word ";
  CommitNotes({{large}, {"last"}});
  EXPECT_THAT(Texts(Update({}).found),
              ElementsAre("content 3: six seven eight nine", "content 4: ten eleven",
                          "content 5: twelve thirteen", "content 7: last"));
  EXPECT_EQ(Update({}).contents_left_out, 3);
}

TEST_F(RecallTest, ThePrefixHoldsNoMoreThanAThousandContents) {
  CreateWith(1'000'000);
  std::vector<Note> notes;
  for (int i = 1; i <= 1100; ++i) notes.push_back({fmt::format("n{}", i)});
  CommitNotes(std::move(notes));
  const UpdatedContext updated = Update({});
  ASSERT_THAT(updated.found.items, SizeIs(1000));
  EXPECT_EQ(updated.found.items.front().content->position, 101);
  EXPECT_EQ(updated.found.items.back().content->position, 1100);
  EXPECT_EQ(updated.contents_left_out, 100);
}

// Bytes and images count for few tokens.
TEST_F(RecallTest, ThePrefixHoldsNoMoreThanFourMebibytes) {
  CreateWith(1'000'000);
  for (int i = 0; i < 6; ++i) CommitNotes({{std::string(std::size_t{1} << 20, 'x')}});
  EXPECT_THAT(Update({}).found.items, SizeIs(4));
  EXPECT_EQ(Update({}).contents_left_out, 2);
}

TEST_F(RecallTest, AnUpdateAfterACutIsAbortedOrLeavesOutWhatIsGone) {
  CreateWith(100);
  CommitNotes({{"note"}}, {{"user", "red"}});
  Archive();
  const SessionInfo older = Info();
  Commit(Reset(ResetScope::kEverything));
  Sweep();
  const std::vector<Said> context = {{"user", "red"}};
  EXPECT_TRUE(absl::IsAborted(TryUpdate(older, context).status()));
  const auto accepted = TryUpdate(older, context, true);
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_THAT(accepted->insertions.messages, IsEmpty());
  EXPECT_EQ(Context(context), context);
}

// An index that is ahead of the row, and of another generation.
TEST_F(RecallTest, ARecallFromAnotherGenerationIsAborted) {
  CreateWith(100);
  CommitNotes({}, {{"user", "red"}});
  Archive();
  const SessionInfo older = Info();
  Commit(Reset(ResetScope::kMessages));
  CommitNotes({}, {{"user", "red again"}});
  Archive();
  Sweep();
  ASSERT_TRUE(Query("red").ok());
  EXPECT_TRUE(absl::IsAborted(TryUpdate(older, {{"user", "red"}}).status()));
  EXPECT_THAT(TryUpdate(older, {{"user", "red"}}, true)->insertions.messages, IsEmpty());
}

TEST_F(RecallTest, OnlyWhatIsSearchedNeedsAnIndex) {
  CreateWith(100);
  CommitNotes({{"note"}}, {{"user", "red"}});
  EXPECT_TRUE(Recall::NeedsIndex(Info(), QueryRequest()));
  EXPECT_FALSE(Recall::NeedsIndex(Info(), UpdateContextRequest())) << "nothing is archived";
  Archive();
  EXPECT_TRUE(Recall::NeedsIndex(Info(), UpdateContextRequest()));
  EXPECT_TRUE(Query("red").ok());
  EXPECT_GT(recall_->search().ByteSize(), 0U);
  Commit(Plain(commands::DeleteSession()));
  EXPECT_FALSE(Recall::NeedsIndex(Info(), QueryRequest()));
  EXPECT_THAT(Query("red")->items, IsEmpty());
  EXPECT_EQ(recall_->search().ByteSize(), 0U) << "a deleted session's index is dropped";
  CreateList();
  EXPECT_FALSE(Recall::NeedsIndex(Info(), QueryRequest()));
}

TEST_F(RecallTest, ABodyThatCannotBeReadIsDataLoss) {
  CreateWith(100);
  CommitNotes({{"unreadable"}});
  EXPECT_TRUE(absl::IsDataLoss(TryUpdate(Info(), {}).status()));
}

}  // namespace
}  // namespace memoryd
