// What a session's retention takes out of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "core/blocks/fact_changes.h"
#include "core/blocks/fact_state.h"
#include "core/blocks/fact_text.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session_config.h"
#include "core/reads/compose.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/commands/sweep.h"
#include "core/writes/draft/session_draft.h"
#include "core/writes/write.h"
#include "tests/support/session_draft_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::int64_t kSecond = 1'000'000;

class RetentionTest : public SessionDraftTest {
 protected:
  static SessionSettings Buffer() {
    SessionSettings settings = WordSettings();
    settings.policy = PolicyKind::kBuffer;
    return settings;
  }
  // Threshold 10 tokens, flushes of at least one: two messages of one word stay active.
  static SessionSettings Small() {
    SessionSettings settings = WordSettings();
    settings.token_limit = 20;
    settings.chat_history_token_ratio = 0.5;
    settings.token_flush_size = 1;
    return settings;
  }
  void CreateKeeping(SessionSettings settings, std::int64_t keep_messages) {
    settings.retention.keep_messages = keep_messages;
    MustStore(WithSettings(commands::CreateSession(), std::move(settings)));
  }
  void PutLines(std::vector<Line> lines) { MustStore(Plain(commands::Put(), std::move(lines))); }
  void PutWords(int count) {
    for (int i = 0; i < count; ++i) PutLines({{"user", "a"}});
  }

  std::int64_t BytesInMemory() const {
    std::int64_t bytes = 0;
    for (const MessagePtr& message : session_.pinned) bytes += std::ssize(message->body);
    for (const MessagePtr& message : session_.active) bytes += std::ssize(message->body);
    return bytes;
  }

  SessionDraft::Decision Sweep(SweepRequest sweep) {
    return Apply(Plain(commands::Sweep{std::move(sweep), {}}));
  }
  SweepRequest Seen() const {
    SweepRequest sweep;
    sweep.generation = session_.row.generation;
    sweep.revision = session_.row.revision;
    sweep.floor = session_.row.floor;
    sweep.pinned = session_.row.pinned;
    sweep.opening = session_.row.opening;
    sweep.expire_us = session_.row.expire_us;
    return sweep;
  }
};

TEST_F(RetentionTest, WithoutItNothingIsWrittenForTheSweeper) {
  MustStore(Put({{"user", "a"}}));
  EXPECT_FALSE(change_->write_expire_us);
  PutLines({{"user", "b"}});
  EXPECT_FALSE(change_->write_expire_us);
  EXPECT_FALSE(change_->write_drop_us);
  EXPECT_EQ(session_.row.expire_us, 0);
  EXPECT_EQ(session_.row.drop_us, 0);
}

TEST_F(RetentionTest, TheNewestMessagesAreKept) {
  CreateKeeping(Buffer(), 3);
  PutLines({{"user", "a"}, {"user", "bb"}, {"user", "ccc"}});
  EXPECT_TRUE(change_->erase.empty());
  PutLines({{"user", "d"}, {"user", "e"}});
  EXPECT_THAT(Bodies(session_.active), ElementsAre("ccc", "d", "e"));
  ASSERT_THAT(change_->erase, SizeIs(1));
  EXPECT_EQ(change_->erase[0].begin, 1);
  EXPECT_EQ(change_->erase[0].end, 3);
  EXPECT_THAT(change_->garbage, IsEmpty());
  EXPECT_EQ(session_.row.floor, 3);
  EXPECT_EQ(session_.row.watermark, 3);
  EXPECT_EQ(session_.row.active_count, 3);
  EXPECT_EQ(session_.row.active_tokens, 15);
  EXPECT_EQ(session_.row.message_bytes, BytesInMemory());
  EXPECT_EQ(session_.row.edit_revision, 0) << "a job under way need not begin anew";
  EXPECT_EQ(session_.row.drop_us, 0);
}

TEST_F(RetentionTest, WhatOnePutMakesTooMuchIsNeverStored) {
  CreateKeeping(Buffer(), 2);
  PutLines({{"user", "a"}, {"user", "b"}, {"user", "c"}});
  EXPECT_THAT(Bodies(change_->messages), ElementsAre("b", "c"));
  EXPECT_TRUE(change_->erase.empty());
  EXPECT_EQ(session_.row.next_position, 4);
  EXPECT_EQ(session_.row.floor, 2);
}

TEST_F(RetentionTest, SeveralPutsOfACommitEraseEachRowOnce) {
  CreateKeeping(Buffer(), 2);
  PutLines({{"user", "a"}, {"user", "b"}});
  SessionDraft draft = NewDraft();
  for (const char* text : {"c", "d", "e"}) {
    EXPECT_EQ(Add(draft, Plain(commands::Put(), {{"user", text}})).kind, DecisionKind::kStore);
  }
  EXPECT_EQ(draft.retired_messages(), 3);
  const SessionChange change = draft.TakeChange(kKey);
  draft.ApplyTo(session_);
  ASSERT_THAT(change.erase, SizeIs(1));
  EXPECT_EQ(change.erase[0].begin, 1);
  EXPECT_EQ(change.erase[0].end, 3);
  EXPECT_THAT(Bodies(change.messages), ElementsAre("d", "e"));
  EXPECT_THAT(Bodies(session_.active), ElementsAre("d", "e"));
}

TEST_F(RetentionTest, ArchivedOnesGoFirst) {
  CreateKeeping(Small(), 4);
  PutWords(4);
  EXPECT_EQ(session_.row.archived_count, 2);
  PutWords(2);
  EXPECT_EQ(session_.row.archived_count, 2);
  EXPECT_EQ(session_.row.active_count, 2);
  EXPECT_EQ(session_.row.floor, 3);
  EXPECT_EQ(session_.row.watermark, 5);
  EXPECT_EQ(session_.row.message_bytes, 4);
}

TEST_F(RetentionTest, TheNewestMessagesWhoseBodiesFitAreKept) {
  SessionSettings settings = Buffer();
  settings.retention.keep_bytes = 6;
  MustStore(WithSettings(commands::CreateSession(), settings));
  PutLines({{"system", "s"}, {"user", "aaa"}, {"user", "bb"}});
  EXPECT_THAT(Bodies(session_.active), ElementsAre("aaa", "bb"));
  PutLines({{"user", "c"}});
  EXPECT_THAT(Bodies(session_.pinned), ElementsAre("s"));
  EXPECT_THAT(Bodies(session_.active), ElementsAre("bb", "c"));
  EXPECT_EQ(session_.row.message_bytes, BytesInMemory());
  PutLines({{"user", "ddd"}, {"user", "ee"}});
  EXPECT_THAT(Bodies(session_.active), ElementsAre("ddd", "ee"));
  PutLines({{"user", "too large alone"}});
  EXPECT_THAT(Bodies(session_.active), ElementsAre("too large alone")) << "it was acknowledged";
  EXPECT_EQ(session_.row.drop_us, 0);
}

TEST_F(RetentionTest, HowManyArchivedBytesAreTooMuchTheSweeperFindsOut) {
  SessionSettings settings = Small();
  settings.retention.keep_bytes = 5;
  MustStore(WithSettings(commands::CreateSession(), settings));
  PutWords(5);
  ASSERT_EQ(session_.row.archived_count, 3);
  EXPECT_EQ(session_.row.drop_us, 0);
  PutWords(1);
  EXPECT_EQ(session_.row.archived_count, 4);
  EXPECT_EQ(session_.row.drop_us, now_us_ + kSecond);
  SweepRequest sweep = Seen();
  sweep.leaving.archived = sweep.archived_bytes = 1;
  sweep.leaving.floor = 2;
  now_us_ += 2 * kSecond;
  ASSERT_EQ(Sweep(sweep).kind, DecisionKind::kStore);
  EXPECT_EQ(session_.row.message_bytes, 5);
  EXPECT_EQ(session_.row.drop_us, 0);
  // What is active takes all there is room for.
  PutLines({{"user", "abcd"}, {"user", "e"}});
  EXPECT_EQ(session_.row.archived_count, 0);
  EXPECT_THAT(Bodies(session_.active), ElementsAre("abcd", "e"));
  EXPECT_EQ(session_.row.message_bytes, 5);
}

TEST_F(RetentionTest, PinnedOnesCountAndStay) {
  CreateKeeping(Buffer(), 2);
  PutLines({{"system", "s"}, {"user", "a"}, {"user", "b"}});
  EXPECT_THAT(Bodies(session_.pinned), ElementsAre("s"));
  EXPECT_THAT(Bodies(session_.active), ElementsAre("b"));
  PutWords(3);
  EXPECT_THAT(Bodies(session_.pinned), ElementsAre("s"));
  EXPECT_EQ(session_.row.active_count, 2);
}

TEST_F(RetentionTest, ManyGoBehindTheCommit) {
  MustStore(WithSettings(commands::CreateSession(), Buffer()));
  for (int i = 0; i < 6; ++i) PutLines(std::vector<Line>(100, Line{"user", "a"}));
  SessionSettings fewer;
  fewer.retention.keep_messages = 10;
  MustStore(WithSettings(commands::UpdateSession(), fewer));
  EXPECT_EQ(session_.row.drop_us, now_us_) << "the sweeper need not wait for a Put";
  PutWords(1);
  ASSERT_THAT(change_->garbage, SizeIs(1));
  EXPECT_EQ(change_->garbage[0].begin, 1);
  EXPECT_EQ(change_->garbage[0].end, 592);
  EXPECT_TRUE(change_->erase.empty());
  EXPECT_EQ(session_.row.active_count, 10);
}

TEST_F(RetentionTest, AUnitGoesWithItsFirstMessage) {
  CreateKeeping(Buffer(), 3);
  WriteRequest put =
      Plain(commands::Put(),
            {{"user", "u"}, {"assistant", "call"}, {"tool", "1"}, {"tool", "2"}, {"user", "v"}});
  ItemsOf(put).messages[1].message.ids.value().calls = {"1", "2"};
  ItemsOf(put).messages[2].message.ids.value().results = {"1"};
  ItemsOf(put).messages[3].message.ids.value().results = {"2"};
  MustStore(std::move(put));
  EXPECT_THAT(Bodies(session_.active), ElementsAre("v"));
}

TEST_F(RetentionTest, AResultThatCameLateStaysUnseenWithoutItsCall) {
  CreateKeeping(Buffer(), 2);
  WriteRequest call = Plain(commands::Put(), {{"assistant", "call"}});
  ItemsOf(call).messages[0].message.ids.value().calls = {"1"};
  MustStore(std::move(call));
  WriteRequest result = Plain(commands::Put(), {{"user", "u"}, {"tool", "result"}});
  ItemsOf(result).messages[1].message.ids.value().results = {"1"};
  MustStore(std::move(result));
  EXPECT_THAT(Bodies(session_.active), ElementsAre("u", "result"));
  EXPECT_THAT(Bodies(Compose(session_).messages), ElementsAre("u"));
  PutWords(2);
  EXPECT_THAT(Bodies(session_.active), ElementsAre("a", "a"));
}

TEST_F(RetentionTest, WhatOpensTheNewestTurnIsSpared) {
  CreateKeeping(Buffer(), 3);
  PutLines({{"user", "before"}, {"user", "u"}});
  for (const char* step : {"1", "2", "3", "4", "5"}) PutLines({{"assistant", step}});
  ASSERT_TRUE(session_.opening);
  EXPECT_EQ(session_.opening->body, "u");
  EXPECT_THAT(Bodies(session_.active), ElementsAre("4", "5"));
  EXPECT_THAT(Bodies(Compose(session_).messages), ElementsAre("u", "4", "5"));
  EXPECT_EQ(session_.row.archived_count, 1);
  EXPECT_EQ(session_.row.floor, 6);
  EXPECT_EQ(session_.row.message_bytes, 3);
  // Its turn is over.
  PutLines({{"user", "v"}});
  EXPECT_FALSE(session_.opening);
  EXPECT_EQ(session_.row.opening, 0);
  EXPECT_EQ(session_.row.archived_count, 0);
  EXPECT_THAT(Bodies(session_.active), ElementsAre("4", "5", "v"));
  EXPECT_THAT(Bodies(Compose(session_).messages), ElementsAre("v"));
  ASSERT_THAT(change_->erase, SizeIs(1));
  EXPECT_EQ(change_->erase[0].begin, 2);
  EXPECT_EQ(change_->erase[0].end, 3);
  EXPECT_EQ(session_.row.message_bytes, 3);
}

TEST_F(RetentionTest, NoMessageOutlivesItsTimeForOpeningATurn) {
  SessionSettings settings = Buffer();
  settings.retention.keep_messages = 2;
  settings.retention.message_ttl_us = 16 * kSecond;
  MustStore(WithSettings(commands::CreateSession(), settings));
  now_us_ = 100 * kSecond;
  PutLines({{"user", "u"}, {"assistant", "1"}, {"assistant", "2"}});
  ASSERT_TRUE(session_.opening);
  EXPECT_EQ(session_.row.drop_us, 116 * kSecond);
  now_us_ = 110 * kSecond;
  PutLines({{"assistant", "3"}});
  EXPECT_THAT(Bodies(Compose(session_).messages), ElementsAre("u", "3"));
  now_us_ = 117 * kSecond;
  ASSERT_EQ(Sweep(Seen()).kind, DecisionKind::kStore);
  EXPECT_FALSE(session_.opening);
  EXPECT_EQ(session_.row.archived_count, 0);
  EXPECT_THAT(Bodies(session_.active), ElementsAre("3"));
  EXPECT_EQ(session_.row.message_bytes, 1);
}

TEST_F(RetentionTest, ALibrarysProfileSparesNoOpeningMessage) {
  SessionSettings settings = WordSettings(Profile::kLlamaIndex);
  settings.policy = PolicyKind::kBuffer;
  settings.retention.keep_messages = 2;
  MustStore(WithSettings(commands::CreateSession(), settings));
  PutLines({{"user", "u"}, {"assistant", "1"}, {"assistant", "2"}});
  EXPECT_THAT(Bodies(session_.active), ElementsAre("1", "2"));
  EXPECT_EQ(session_.row.opening, 0);
}

TEST_F(RetentionTest, OldMessagesGoWithTheNextPut) {
  SessionSettings settings = Buffer();
  settings.retention.message_ttl_us = 16 * kSecond;
  MustStore(WithSettings(commands::CreateSession(), settings));
  EXPECT_EQ(session_.row.drop_us, 0);
  now_us_ = 100 * kSecond + 1;
  PutLines({{"user", "a"}});
  EXPECT_EQ(session_.row.drop_us, 117 * kSecond);
  now_us_ = 110 * kSecond;
  PutLines({{"user", "b"}});
  EXPECT_FALSE(change_->write_drop_us) << "the oldest one is the same";
  now_us_ = 118 * kSecond;
  PutLines({{"user", "c"}});
  EXPECT_THAT(Bodies(session_.active), ElementsAre("b", "c"));
  EXPECT_EQ(session_.row.drop_us, 126 * kSecond);
  now_us_ = 200 * kSecond;
  ASSERT_EQ(Sweep(Seen()).kind, DecisionKind::kStore);
  EXPECT_EQ(session_.row.active_count, 0);
  EXPECT_EQ(session_.row.drop_us, 0);
  EXPECT_EQ(session_.row.message_bytes, 0);
}

TEST_F(RetentionTest, WhatAnOpenJobHasToFeedStays) {
  SessionSettings settings = Small();
  settings.blocks.emplace(1);
  settings.blocks->front().name = "facts";
  settings.blocks->front().kind = "facts";
  CreateKeeping(settings, 3);
  PutWords(5);
  // Jobs for 1, 2 and 3 are open.
  EXPECT_EQ(session_.row.archived_count, 3);
  EXPECT_EQ(session_.row.floor, 1);
  EXPECT_EQ(session_.row.drop_us, now_us_ + kSecond);
  SweepRequest sweep = Seen();
  sweep.leaving.held = true;
  sweep.keep_from = 1;
  now_us_ += 2 * kSecond;
  ASSERT_EQ(Sweep(sweep).kind, DecisionKind::kStore);
  EXPECT_EQ(session_.row.archived_count, 3);
  EXPECT_EQ(session_.row.drop_us, now_us_ + 30 * kSecond);

  for (std::int64_t number = 1; number <= 3; ++number) {
    WriteRequest end = Plain(commands::EndJob());
    OutcomeOf(end).state = JobState::kCancelled;
    OutcomeOf(end).job = {kKey, session_.row.block_generation, "facts", number};
    MustStore(std::move(end));
  }
  PutWords(1);
  EXPECT_EQ(session_.row.floor, 4) << "4 has left with this Put, and its job is open";
  EXPECT_EQ(session_.row.archived_count, 1);
}

TEST_F(RetentionTest, TheSweeperTakesWhatItFoundUnlessThatHasChanged) {
  SessionSettings settings = Small();
  settings.retention.message_ttl_us = 16 * kSecond;
  MustStore(WithSettings(commands::CreateSession(), settings));
  PutWords(6);
  ASSERT_EQ(session_.row.archived_count, 4);
  SweepRequest sweep = Seen();
  sweep.leaving.archived = 3;
  sweep.leaving.floor = 4;
  sweep.archived_bytes = 3;
  sweep.next_ingest_us = 500 * kSecond;
  now_us_ = 100 * kSecond;
  PutWords(1);
  ASSERT_EQ(Sweep(sweep).kind, DecisionKind::kStore) << "Puts only add";
  EXPECT_EQ(session_.row.archived_count, 2);
  EXPECT_EQ(session_.row.floor, 4);
  EXPECT_EQ(session_.row.message_bytes, 4);
  EXPECT_EQ(session_.row.drop_us, 516 * kSecond);
  now_us_ = 600 * kSecond;
  EXPECT_EQ(Sweep(sweep).kind, DecisionKind::kUnchanged) << "they are gone";
  sweep = Seen();
  MustStore(Reset(ResetScope::kArchived));
  sweep.leaving.archived = 1;
  sweep.leaving.floor = 5;
  EXPECT_EQ(Sweep(sweep).kind, DecisionKind::kUnchanged);
}

TEST_F(RetentionTest, ASessionExpiresUnlessItIsWritten) {
  SessionSettings settings = Buffer();
  settings.retention.session_ttl_us = 16 * kSecond;
  now_us_ = 100 * kSecond + 1;
  MustStore(WithSettings(commands::CreateSession(), settings));
  EXPECT_EQ(session_.row.expire_us, 117 * kSecond);
  EXPECT_TRUE(change_->write_expire_us);
  now_us_ = 101 * kSecond;
  PutLines({{"user", "a"}});
  EXPECT_FALSE(change_->write_expire_us) << "within the same step";
  const SweepRequest early = Seen();
  now_us_ = 117 * kSecond - 1;
  EXPECT_EQ(Sweep(early).kind, DecisionKind::kUnchanged);
  PutLines({{"user", "b"}});
  EXPECT_EQ(session_.row.expire_us, 133 * kSecond);
  now_us_ = 132 * kSecond;
  EXPECT_EQ(Sweep(early).kind, DecisionKind::kUnchanged) << "it was written meanwhile";
  now_us_ = 133 * kSecond;
  SweepRequest touched = Seen();
  touched.expire_us = 134 * kSecond;
  EXPECT_EQ(Sweep(touched).kind, DecisionKind::kUnchanged) << "another server has raised it";
  ASSERT_EQ(Sweep(Seen()).kind, DecisionKind::kStore);
  EXPECT_TRUE(session_.row.deleted);
  EXPECT_EQ(session_.row.expire_us, 0);
  EXPECT_THAT(change_->garbage, SizeIs(1));
}

TEST_F(RetentionTest, TheEndOfAJobKeepsNoSessionAlive) {
  SessionSettings settings = Small();
  settings.retention.session_ttl_us = 16 * kSecond;
  settings.blocks.emplace(1);
  settings.blocks->front().name = "facts";
  settings.blocks->front().kind = "facts";
  MustStore(WithSettings(commands::CreateSession(), settings));
  PutWords(4);
  const std::int64_t expire_us = session_.row.expire_us;
  // As TouchSessions() may do while a draft is on its way.
  now_us_ += 10 * kSecond;
  WriteRequest end = Plain(commands::EndJob());
  OutcomeOf(end).state = JobState::kCancelled;
  OutcomeOf(end).job = {kKey, session_.row.block_generation, "facts", 1};
  SessionDraft draft = NewDraft();
  ASSERT_EQ(Add(draft, std::move(end)).kind, DecisionKind::kStore);
  EXPECT_FALSE(draft.TakeChange(kKey).write_expire_us);
  session_.row.expire_us = expire_us + 5;
  draft.ApplyTo(session_);
  EXPECT_EQ(session_.row.expire_us, expire_us + 5);
}

TEST_F(RetentionTest, FactsThatNobodySaysAgainAreRetired) {
  SessionSettings settings = Small();
  settings.blocks.emplace(1);
  settings.blocks->front().name = "facts";
  settings.blocks->front().kind = "fact-extraction";
  settings.blocks->front().options_json = R"({"model":"m","ttl":60})";
  MustStore(WithSettings(commands::CreateSession(), settings));
  PutWords(3);
  ASSERT_EQ(session_.row.archived_count, 1);
  EXPECT_EQ(session_.row.drop_us, 0);
  now_us_ = 100 * kSecond;
  FactState known;
  TakeIn(known, std::vector{AnsweredFact{"a", {}, {}, {}}, AnsweredFact{"b", {}, {}, {}}}, {},
         {"j", now_us_});
  known.facts[1].last_us += 20 * kSecond;
  WriteRequest end = Plain(commands::EndJob());
  OutcomeOf(end).job = {kKey, session_.row.block_generation, "facts", 1};
  OutcomeOf(end).read_revision = session_.row.revision;
  OutcomeOf(end).fed = session_.blocks.at("facts");
  OutcomeOf(end).block_state = known.ToJson();
  MustStore(std::move(end));
  EXPECT_EQ(session_.row.drop_us, 160 * kSecond);
  PutWords(1);
  EXPECT_EQ(session_.row.drop_us, 160 * kSecond) << "a Put leaves it";
  now_us_ = 170 * kSecond;
  ASSERT_EQ(Sweep(Seen()).kind, DecisionKind::kStore);
  FactState left = FactState::FromJson(session_.blocks.at("facts")->state).value();
  ASSERT_EQ(left.facts.size(), 1U);
  EXPECT_EQ(left.facts[0].text, "b");
  ASSERT_EQ(left.history.size(), 1U);
  EXPECT_EQ(left.history[0].end, FactEnd::kRetired);
  EXPECT_EQ(session_.row.drop_us, 180 * kSecond);
  now_us_ = 180 * kSecond;
  ASSERT_EQ(Sweep(Seen()).kind, DecisionKind::kStore);
  EXPECT_EQ(session_.row.drop_us, 0);
  EXPECT_TRUE(FactState::FromJson(session_.blocks.at("facts")->state).value().facts.empty());
}

TEST_F(RetentionTest, TheRowSaysThatAnItemHasATimeOfItsOwn) {
  MustStore(WithSettings(commands::CreateSession(), WordSettings()));
  PutLines({{"user", "a"}});
  EXPECT_FALSE(session_.row.has_timed_items);
  WriteRequest put = Plain(commands::Put(), {{"user", "b"}});
  ItemsOf(put).messages.front().message.ids.value().expire_us = now_us_ + kSecond + 1;
  MustStore(std::move(put));
  EXPECT_TRUE(session_.row.has_timed_items);
  EXPECT_EQ(session_.row.drop_us, now_us_ + kSecond + 2) << "even, and no sooner than it is due";
  EXPECT_TRUE(change_->write_drop_us);
  PutLines({{"user", "c"}});
  EXPECT_TRUE(session_.row.has_timed_items);
  EXPECT_FALSE(change_->write_drop_us);

  now_us_ = session_.row.drop_us;
  SweepRequest sweep = Seen();
  sweep.watermark = session_.row.watermark;
  sweep.next_content = session_.row.next_content;
  EXPECT_EQ(Sweep(sweep).kind, DecisionKind::kStore);
  EXPECT_THAT(Bodies(session_.active), ElementsAre("a", "c"));
  EXPECT_FALSE(session_.row.has_timed_items);
  EXPECT_TRUE(change_->write_drop_us);
  MustStore(Plain(commands::DeleteSession()));
  EXPECT_FALSE(session_.row.has_timed_items);
}

TEST_F(RetentionTest, UpdateSessionTakesItBack) {
  SessionSettings settings = Buffer();
  settings.retention.session_ttl_us = 16 * kSecond;
  settings.retention.message_ttl_us = 16 * kSecond;
  MustStore(WithSettings(commands::CreateSession(), settings));
  PutWords(1);
  EXPECT_GT(session_.row.drop_us, 0);
  SessionSettings never;
  never.retention.session_ttl_us = 0;
  never.retention.message_ttl_us = 0;
  MustStore(WithSettings(commands::UpdateSession(), never));
  EXPECT_EQ(session_.row.expire_us, 0);
  EXPECT_EQ(session_.row.drop_us, 0);
  EXPECT_TRUE(change_->write_expire_us);
  EXPECT_TRUE(change_->write_drop_us);
}

}  // namespace
}  // namespace memoryd
