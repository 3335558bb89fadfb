// What writes do to a session's contents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/model/message.h"
#include "core/model/session_config.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/draft/session_draft.h"
#include "core/writes/incoming.h"
#include "core/writes/write.h"
#include "tests/support/session_draft_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class SessionContentsTest : public SessionDraftTest {
 protected:
  WriteRequest PutNotes(std::vector<Note> notes, std::vector<Line> lines = {}) {
    return WithContents(Plain(commands::Put(), std::move(lines)), std::move(notes));
  }
  // Position 1 pinned, 2 archived, 3 and 4 active; contents 1 and 2.
  void FillWithContents() {
    FillSmall();
    MustStore(PutNotes({{"one"}, {"two"}}));
  }
  void ExpectNoContents() {
    EXPECT_EQ(session_.row.content_generation, 0U);
    EXPECT_EQ(session_.row.content_count, 0);
  }
  // The ranges as "generation begin end".
  std::vector<std::string> Garbage() {
    std::vector<std::string> ranges;
    for (const auto& [generation, begin, end] : change_->garbage) {
      ranges.push_back(fmt::format("{} {} {}", generation, begin, end));
    }
    return ranges;
  }
};

TEST_F(SessionContentsTest, APutAppendsThemUnderAGenerationOfTheirOwn) {
  now_us_ = 5000;
  const auto decision = Apply(
      WithContents(Put({{"user", "hello"}}), {{"the sky is blue", "sky"}, {"grass is green"}}));
  EXPECT_EQ(decision.reply, "revision 1 positions 1 archived 0 removed 0+0 contents 1,2 removed 0");
  EXPECT_THAT(Bodies(change_->contents), ElementsAre("the sky is blue", "grass is green"));
  EXPECT_EQ(change_->contents[0]->ids->message_id, "sky");
  EXPECT_EQ(change_->contents[0]->token_count, 12) << "its words, and the tags around";
  EXPECT_EQ(change_->contents[1]->ingest_us, 5000);
  EXPECT_NE(session_.row.content_generation, 0U);
  EXPECT_NE(session_.row.content_generation, session_.row.generation);
  EXPECT_EQ(session_.row.content_count, 2);
  EXPECT_EQ(session_.row.next_content, 3);
  EXPECT_EQ(session_.row.active_count, 1) << "contents are no messages";
  EXPECT_EQ(session_.row.active_tokens, 5);

  const std::uint64_t generation = session_.row.content_generation;
  EXPECT_EQ(Apply(PutNotes({{"third"}})).reply,
            "revision 2 positions  archived 0 removed 0+0 contents 3 removed 0");
  EXPECT_EQ(session_.row.content_generation, generation);
  EXPECT_EQ(session_.row.content_count, 3);
  EXPECT_THAT(change_->garbage, IsEmpty());
}

TEST_F(SessionContentsTest, OneIsChangedOrDeletedInPlace) {
  FillWithContents();
  const auto named = [this](WriteCommand command, const ContentPtr& content,
                            std::vector<Note> notes) {
    WriteRequest request = WithContents(Plain(std::move(command)), std::move(notes));
    request.found.emplace();
    request.found->generation = session_.row.content_generation;
    request.found->revision = session_.row.revision;
    request.found->messages = {content};
    return request;
  };
  const ContentPtr first = change_->contents[0];
  const SessionRow before = session_.row;
  WriteRequest update = named(commands::UpdateContent(), first, {{"one and more"}});
  WriteRequest late = named(commands::DeleteContent(), first, {});
  MustStore(std::move(update));
  ASSERT_EQ(change_->replaced_contents.size(), 1U);
  const ContentPtr changed = change_->replaced_contents[0];
  EXPECT_EQ(changed->body, "one and more");
  EXPECT_EQ(changed->position, first->position);
  EXPECT_EQ(changed->ingest_us, first->ingest_us);
  EXPECT_GT(changed->token_count, first->token_count);
  EXPECT_THAT(change_->contents, IsEmpty());
  EXPECT_THAT(change_->replaced, IsEmpty());
  EXPECT_EQ(session_.row.content_bytes, before.content_bytes + 9);
  EXPECT_EQ(session_.row.content_count, 2);
  EXPECT_EQ(session_.row.edit_revision, session_.row.revision);
  EXPECT_EQ(session_.row.active_tokens, before.active_tokens);
  ExpectRefused(std::move(late), absl::StatusCode::kAborted, "CONTENT_CHANGED");

  MustStore(named(commands::DeleteContent(), changed, {}));
  ASSERT_EQ(change_->erased_entries.size(), 1U);
  EXPECT_EQ(change_->erased_entries[0].generation, before.content_generation);
  EXPECT_EQ(change_->erased_entries[0].positions.begin, 1);
  EXPECT_EQ(change_->erased_entries[0].positions.end, 2);
  EXPECT_THAT(change_->erase, IsEmpty());
  EXPECT_EQ(session_.row.content_count, 1);
  EXPECT_EQ(session_.row.content_bytes, 3);
  EXPECT_EQ(session_.row.next_content, 3);
  EXPECT_EQ(session_.row.active_count, before.active_count) << "no message goes with it";
}

TEST_F(SessionContentsTest, AGenerationOfZeroIsNeverGiven) {
  std::vector<std::uint64_t> numbers = {7, 0, 0, 9, 11};
  random_.Set([numbers, next = std::size_t{0}]() mutable { return numbers.at(next++); });
  MustStore(WithContents(Put({}), {{"a"}}));
  EXPECT_EQ(session_.row.generation, 7U);
  EXPECT_EQ(session_.row.content_generation, 9U);
}

TEST_F(SessionContentsTest, SeveralPutsShareOneChange) {
  SessionDraft draft = NewDraft();
  Add(draft, WithContents(Put({{"user", "a"}}), {{"one"}}));
  const auto second = Add(draft, PutNotes({{"two"}}, {{"user", "b"}}));
  EXPECT_EQ(second.reply, "revision 2 positions 2 archived 0 removed 0+0 contents 2 removed 0");
  const SessionChange change = draft.TakeChange(kKey);
  EXPECT_THAT(Bodies(change.contents), ElementsAre("one", "two"));
  EXPECT_THAT(Bodies(change.messages), ElementsAre("a", "b"));
  EXPECT_EQ(change.row.content_count, 2);
}

TEST_F(SessionContentsTest, TheyNeverLeaveShortTermMemoryForItHoldsNoneOfThem) {
  CreateSmall();
  MustStore(PutNotes({{"w w w w w w w w w w w w w w w w w w w w w w w w w w w w"}}));
  EXPECT_EQ(Apply(Plain(commands::Put(), {{"user", "a"}, {"user", "b"}})).reply,
            "revision 3 positions 1,2 archived 0 removed 0+0");
}

TEST_F(SessionContentsTest, ASetReplacesThem) {
  FillWithContents();
  const SessionRow before = session_.row;
  WriteRequest set = WithContents(Plain(commands::Set(), {{"user", "x"}}), {{"three"}});
  EXPECT_EQ(Apply(std::move(set)).reply,
            "revision 4 positions 5 archived 0 removed 3+1 contents 3 removed 2");
  EXPECT_NE(session_.row.content_generation, before.content_generation);
  EXPECT_NE(session_.row.content_generation, 0U);
  EXPECT_EQ(session_.row.content_count, 1);
  EXPECT_THAT(Garbage(), UnorderedElementsAre(fmt::format("{} 0 5", before.generation),
                                              fmt::format("{} 0 3", before.content_generation)));

  EXPECT_EQ(Apply(Plain(commands::Set())).reply,
            "revision 5 positions  archived 0 removed 1+0 contents  removed 1");
  ExpectNoContents();
}

TEST_F(SessionContentsTest, ASetOfAnUnknownSessionCreatesItWithThem) {
  MustStore(WithContents(Plain(commands::Set()), {}));
  ExpectNoContents();
  session_ = Session::Absent();
  WriteRequest set = WithContents(Plain(commands::Set()), {{"a"}, {"b"}});
  // The default tokenizer would need a vocabulary.
  Write write(std::move(set), place_, {});
  write.counted_with = session_.config->counting;
  write.token_counts.contents = {1, 2};
  SessionDraft draft = NewDraft();
  ASSERT_EQ(draft.Add(write).kind, DecisionKind::kStore);
  EXPECT_EQ(draft.TakeChange(kKey).row.content_count, 2);
}

TEST_F(SessionContentsTest, ResetTakesThemInTheScopesThatSaySo) {
  for (const Profile profile : {Profile::kDefault, Profile::kLlamaIndex, Profile::kAutogenList}) {
    for (const auto& [scope, removed] :
         {std::pair(ResetScope::kProfile, profile != Profile::kLlamaIndex),
          std::pair(ResetScope::kMessages, false), std::pair(ResetScope::kActive, false),
          std::pair(ResetScope::kArchived, false), std::pair(ResetScope::kEverything, true)}) {
      SCOPED_TRACE(fmt::format("{} {}", ProfileName(profile), static_cast<int>(scope)));
      session_ = Session::Absent();
      CreateSmall(profile);
      MustStore(PutNotes({{"one"}, {"two"}}, {{"user", "a"}, {"user", "b"}}));
      const SessionRow before = session_.row;
      const std::string contents =
          fmt::format("{} 0 {}", before.content_generation, before.next_content);

      const std::string reply = Apply(Reset(scope)).reply;
      EXPECT_EQ(reply.ends_with(" contents  removed 2"), removed) << reply;
      if (removed) {
        ExpectNoContents();
        EXPECT_THAT(Garbage(), ::testing::Contains(contents));
      } else {
        EXPECT_EQ(session_.row.content_generation, before.content_generation);
        EXPECT_EQ(session_.row.content_count, 2);
        EXPECT_THAT(Garbage(), ::testing::Not(::testing::Contains(contents)));
      }
      EXPECT_EQ(session_.row.next_content, 3) << "positions are never given twice";

      MustStore(PutNotes({{"next"}}));
      EXPECT_EQ(change_->contents.front()->position, 3);
      EXPECT_EQ(session_.row.content_count, removed ? 1 : 3);
      EXPECT_EQ(session_.row.content_generation == before.content_generation, !removed);
    }
  }
}

TEST_F(SessionContentsTest, ResetOfEverythingWithoutMessagesLeavesTheirRowsToTheSweeper) {
  CreateSmall();
  MustStore(PutNotes({{"one"}}));
  const std::uint64_t contents = session_.row.content_generation;
  EXPECT_EQ(Apply(Reset(ResetScope::kEverything)).reply,
            "revision 3 positions  archived 0 removed 0+0 contents  removed 1");
  EXPECT_THAT(Garbage(), ElementsAre(fmt::format("{} 0 2", contents)));
  // Nothing is there to go twice.
  MustStore(Reset(ResetScope::kEverything));
  EXPECT_THAT(Garbage(), IsEmpty());
}

TEST_F(SessionContentsTest, ADeletedSessionComesBackWithoutThem) {
  FillWithContents();
  const SessionRow before = session_.row;
  EXPECT_EQ(Apply(Plain(commands::DeleteSession())).reply,
            "revision 4 positions  archived 0 removed 3+1 contents  removed 2");
  ExpectNoContents();
  EXPECT_THAT(Garbage(), UnorderedElementsAre(fmt::format("{} 0 5", before.generation),
                                              fmt::format("{} 0 3", before.content_generation)));

  EXPECT_EQ(Apply(WithContents(Put({}), {{"again"}})).reply,
            "revision 5 positions  archived 0 removed 0+0 contents 3 removed 0");
  EXPECT_NE(session_.row.content_generation, before.content_generation);
  EXPECT_EQ(session_.row.content_count, 1);
}

TEST_F(SessionContentsTest, CreatingASessionAnewLeavesNoneOfATombstones) {
  FillWithContents();
  MustStore(Plain(commands::DeleteSession()));
  MustStore(WithSettings(commands::CreateSession(), WordSettings()));
  ExpectNoContents();
}

TEST_F(SessionContentsTest, WhatAServerThatKnewNoContentsLeftIsGarbage) {
  FillWithContents();
  MustStore(Plain(commands::DeleteSession()));
  // Such a server leaves these columns as they were.
  session_.row.content_generation = 77;
  session_.row.content_count = 2;
  MustStore(WithContents(Put({}), {{"new"}}));
  EXPECT_THAT(Garbage(), ElementsAre("77 0 3"));
  EXPECT_NE(session_.row.content_generation, 77U);
  EXPECT_EQ(session_.row.content_count, 1);
}

TEST_F(SessionContentsTest, CountingRulesAreFixedByTheFirstContent) {
  CreateSmall();
  SessionSettings settings;
  settings.image_token_count = 7;
  MustStore(WithSettings(commands::UpdateSession(), settings));
  MustStore(PutNotes({{"one"}}));
  settings.image_token_count = 8;
  ExpectRefused(WithSettings(commands::UpdateSession(), settings),
                absl::StatusCode::kFailedPrecondition, "CONFIG_FIXED");
  MustStore(Reset(ResetScope::kEverything));
  MustStore(WithSettings(commands::UpdateSession(), settings));
}

TEST_F(SessionContentsTest, ResetOfTheActiveTakesThePinnedThatAResetOfTheArchivedLeft) {
  FillSmall();
  MustStore(Reset(ResetScope::kArchived));
  ASSERT_THAT(session_.row.pinned, ElementsAre(1));
  ASSERT_EQ(session_.row.floor, 3);
  MustStore(Reset(ResetScope::kActive));
  ASSERT_EQ(change_->garbage.size(), 1U);
  EXPECT_EQ(change_->garbage.front().begin, 1) << "or the pinned message's row stays for good";
  EXPECT_EQ(change_->garbage.front().end, 5);
}

// The kinds of value, by the rules that count them.
class ContentTokensTest : public ::testing::Test {
 protected:
  std::int64_t Count(const CountingRules& rules, CountedPart::Kind kind, std::string_view text) {
    IncomingItems items;
    items.contents.emplace_back().value = {kind, text, {}, {}};
    CountProgress progress;
    const auto all = TokenRules("").CountWithin(rules, items, TokenRules::kCheapCost, progress);
    EXPECT_TRUE(all.ok() && *all) << all.status();
    const std::vector<std::int64_t>& contents = progress.counts.contents;
    return contents.size() == 1 ? contents.front() : -1;
  }

  static CountingRules Rules(Profile profile, std::string tokenizer) {
    CountingRules rules;
    rules.profile = profile;
    rules.tokenizer = std::move(tokenizer);
    rules.image_token_count = 100;
    return rules;
  }
};

TEST_F(ContentTokensTest, AreTheSameInEveryProfile) {
  for (const Profile profile : {Profile::kDefault, Profile::kLlamaIndex, Profile::kAutogenList}) {
    const CountingRules rules = Rules(profile, "whitespace");
    EXPECT_EQ(Count(rules, CountedPart::Kind::kText, "three words here"), 11);
    EXPECT_EQ(Count(rules, CountedPart::Kind::kText, ""), 8);
    // Bytes and images are only named in a context, so no estimate of theirs counts.
    EXPECT_EQ(Count(rules, CountedPart::Kind::kOther, ""), 16);
    EXPECT_EQ(Count(rules, CountedPart::Kind::kImage, ""), 16);
  }
}

TEST_F(ContentTokensTest, AreEstimatedByBytesWhereTheCallerCounts) {
  const CountingRules rules = Rules(Profile::kDefault, "caller");
  EXPECT_EQ(Count(rules, CountedPart::Kind::kText, std::string(41, 'x')), 18);
  EXPECT_EQ(Count(rules, CountedPart::Kind::kText, "abc"), 8);
  EXPECT_EQ(Count(rules, CountedPart::Kind::kOther, ""), 16);
  EXPECT_EQ(Count(rules, CountedPart::Kind::kImage, ""), 16);
}

}  // namespace
}  // namespace memoryd
