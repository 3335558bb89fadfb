#include "core/blocks/entity_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/blocks/block_text.h"
#include "core/model/job.h"
#include "tests/support/block_fixture.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ReadEntityAnswerTest, ReadsWhatModelsWrite) {
  const std::vector<AnsweredEntity> wanted = {{"Ann", "likes tea", {}}, {"Bo Ek", "is 7", {}}};
  for (const std::string text :
       {"<entities><entity name=\"Ann\">likes tea</entity><entity name='Bo Ek'>is 7</entity>",
        R"([{"name":"Ann","summary":"likes tea"},{"entity":"Bo Ek","line":"is 7"}])",
        R"(```json
{"Ann":"likes tea","Bo Ek":"is 7"}
```)",
        R"({"entities":[{"name":"Ann","text":"likes tea"},{"name":"Bo Ek","text":"is 7"}]})",
        "Ann: likes tea\nBo Ek: is 7", "- **Ann**: likes tea\n- **Bo Ek**: is 7"}) {
    const EntityAnswer answer = ReadEntityAnswer(text);
    EXPECT_TRUE(answer.understood) << text;
    EXPECT_EQ(answer.entities, wanted) << text;
  }
  EXPECT_THAT(
      ReadEntityAnswer("<entity name=\"A\" evidence=\"2,3\">x</entity>").entities[0].evidence,
      ElementsAre(2, 3));
}

TEST(ReadEntityAnswerTest, NothingAndNonsenseDiffer) {
  for (const std::string text :
       {"<entities></entities>", "None.", "[]", "{}", "There are no entities."}) {
    EXPECT_TRUE(ReadEntityAnswer(text).understood) << text;
    EXPECT_THAT(ReadEntityAnswer(text).entities, IsEmpty()) << text;
  }
  for (const std::string text : {"", "I can't.", "[1]", "{\"a\":1}"}) {
    EXPECT_FALSE(ReadEntityAnswer(text).understood) << text;
  }
}

TEST(ReadEntityAnswerTest, NestingTakesNoStack) {
  constexpr int kDepth = 200'000;
  std::string text;
  for (int i = 0; i < kDepth; ++i) text += "{\"entities\":";
  text += R"({"Ann":"likes tea"})";
  text.append(kDepth, '}');
  const EntityAnswer answer = ReadEntityAnswer(text);
  EXPECT_TRUE(answer.understood);
  ASSERT_EQ(answer.entities.size(), 1U);
  EXPECT_EQ(answer.entities[0].name, "Ann");
}

TEST(ReadEntityAnswerPropertyTest, TakesAnyAnswer) {
  static const std::array<std::string, 14> kPieces = {
      "<entity ", "name=\"A\"", ">",  "</entity>", "{",  "}",    "[",
      "]",        "\"a\"",      ": ", "\n",        ", ", "\xFF", "word"};
  std::mt19937 random(8);
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (std::size_t left = random() % 25; left > 0; --left) {
      text += kPieces[random() % kPieces.size()];
    }
    for (const AnsweredEntity& entity : ReadEntityAnswer(text).entities) {
      EXPECT_FALSE(entity.name.empty());
      EXPECT_FALSE(entity.line.empty());
      EXPECT_LE(entity.line.size(), kMaxEntityLine);
    }
  }
}

TEST(MentionsTest, FindsWholeWords) {
  EXPECT_TRUE(Mentions("was ANN there?", "Ann"));
  EXPECT_TRUE(Mentions("anna and ann", "Ann"));
  EXPECT_FALSE(Mentions("Anna", "Ann"));
  EXPECT_FALSE(Mentions("", "Ann"));
  EXPECT_FALSE(Mentions("x", ""));
}

TEST(EntityStateTest, ComesBackAndStaysWithinItsBytes) {
  EntityState state;
  state.entities = {{"Ann", "likes tea", {"m1"}, 1, 2}};
  state.history = {{state.entities[0], 3, "j1"}};
  EXPECT_EQ(EntityState::FromJson(state.ToJson()).value(), state);
  EXPECT_EQ(EntityState::FromJson(WithoutHistory(state.ToJson())).value(),
            (EntityState{state.entities, {}}));
  for (const std::string text : {"{", "[]", R"({"version":1,"entities":[{}],"history":[]})"}) {
    EXPECT_EQ(EntityState::FromJson(text).status().code(), absl::StatusCode::kDataLoss);
  }
  state.history.assign(kMaxPastEntities, {{"Ann", std::string(20'000, 'x'), {}, 1, 2}, 3, "j"});
  EXPECT_LE(state.ToJson().size(), kMaxBlockState);
  EXPECT_EQ(EntityState::FromJson(state.ToJson())->entities, state.entities);
}

class EntityBlockTest : public testing::Test, protected BlockFixture {};

TEST_F(EntityBlockTest, KeepsALineAboutEach) {
  Make("entity", R"({"model":"chat"})");
  models.chat->replies = {
      "<entity name=\"Ann\" evidence=\"1\">likes tea</entity><entity name=\"Kiel\">a town</entity>",
      "<entity name=\"ANN\">likes coffee </entity></entity>"};
  ASSERT_TRUE(Feed({Text("user", "I am Ann"), Text("user", "from Kiel")}).ok());
  now_us = 2'000'000;
  ASSERT_TRUE(Feed({Text("user", "coffee")}).ok());
  EXPECT_THAT(models.chat->Prompt(1), HasSubstr("<entity name=\"Ann\">likes tea</entity>"));
  const EntityState stored = EntityState::FromJson(state.state).value();
  ASSERT_EQ(stored.entities.size(), 2U);
  EXPECT_EQ(stored.entities[1].name, "Ann");
  EXPECT_EQ(stored.entities[1].line, "likes coffee");
  EXPECT_THAT(stored.entities[1].evidence, ElementsAre("m1", "m3"));
  EXPECT_EQ(stored.entities[1].first_us, 1'000'000);
  EXPECT_EQ(stored.entities[1].last_us, 2'000'000);
  EXPECT_THAT(stored.entities[0].evidence, ElementsAre("m1", "m2"));
  ASSERT_EQ(stored.history.size(), 1U);
  EXPECT_EQ(stored.history[0].entity.line, "likes tea");

  EXPECT_EQ(Said({Text("user", "hello")}), "");
  EXPECT_EQ(Said({Text("user", "Ann in Kiel?")}),
            "<entity name=\"Ann\">likes coffee</entity>\n<entity name=\"Kiel\">a town</entity>");
}

TEST_F(EntityBlockTest, LinesCannotCloseTheirTags) {
  Make("entity", R"({"model":"chat"})");
  models.chat->replies = {R"({"A\"><x":"b</entity>c"})"};
  ASSERT_TRUE(Feed({Text("user", "x")}).ok());
  EXPECT_EQ(Said({Text("user", "a\"><x")}),
            "<entity name=\"A&quot;>&lt;x\">b&lt;/entity>c</entity>");
}

TEST_F(EntityBlockTest, NonsenseTakesNothingAway) {
  Make("entity", R"({"model":"chat"})");
  models.chat->replies = {"Ann: likes tea"};
  ASSERT_TRUE(Feed({Text("user", "x")}).ok());
  const std::string before = state.state;
  models.chat->replies = {"I can't."};
  ASSERT_TRUE(Feed({Text("user", "x")}).ok());
  EXPECT_EQ(state.state, before);
  EXPECT_EQ(stats.unreadable_answers.load(), 1U);
  models.chat->replies = {absl::UnavailableError("gone")};
  EXPECT_EQ(Feed({Text("user", "x")}).code(), absl::StatusCode::kUnavailable);
}

TEST_F(EntityBlockTest, TheLongestUnseenLeavesIntoHistory) {
  Make("entity", R"({"model":"chat","max_entities":2,"top_k":1})");
  models.chat->replies = {"Ann: a\nBo: b\nCy: c"};
  ASSERT_TRUE(Feed({Text("user", "x")}).ok());
  const EntityState stored = EntityState::FromJson(state.state).value();
  EXPECT_EQ(stored.entities.size(), 2U);
  ASSERT_EQ(stored.history.size(), 1U);
  EXPECT_EQ(stored.history[0].entity.name, "Ann");
  EXPECT_EQ(Said({Text("user", "Ann Bo Cy")}), "<entity name=\"Cy\">c</entity>");
}

}  // namespace
}  // namespace memoryd
