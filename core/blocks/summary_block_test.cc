#include "core/blocks/summary_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "core/model/job.h"
#include "tests/support/block_fixture.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ReadSummaryTest, ReadsWhatModelsWrite) {
  EXPECT_EQ(ReadSummary(" Ann likes tea. \n", 100), "Ann likes tea.");
  EXPECT_EQ(ReadSummary("Sure!\n<summary>\nAnn.\n</summary> Done.", 100), "Ann.");
  EXPECT_EQ(ReadSummary("```text\nAnn.\n```", 100), "Ann.");
  EXPECT_EQ(ReadSummary("One is. Two is. Three is.", 20), "One is. Two is.");
  EXPECT_EQ(ReadSummary("nosentences", 4), "nose");
}

TEST(ReadSummaryTest, NonsenseIsNoSummary) {
  std::string loop = "The user. ";
  for (int i = 0; i < 20; ++i) loop += "and so on ";
  for (const std::string& text :
       {std::string(), std::string("..."), std::string("<summary></summary>"), std::string("```"),
        std::string(100, 'a'), loop}) {
    EXPECT_EQ(ReadSummary(text, 1000), "") << text;
  }
}

TEST(SentencesTest, EndsWithASentence) {
  const std::string text = "One is 3.5 m. Two! Three?\nFour";
  EXPECT_EQ(Sentences(text, text.size()), "One is 3.5 m. Two! Three?");
  EXPECT_EQ(Sentences(text, 20), "One is 3.5 m. Two!");
  EXPECT_EQ(Sentences(text, 15), "One is 3.5 m.");
  EXPECT_EQ(Sentences(text, 12), "");
  EXPECT_EQ(Sentences("\xE4\xB8\x80\xE3\x80\x82\xE4\xBA\x8C", 9), "\xE4\xB8\x80\xE3\x80\x82");
}

TEST(SentencesTest, PropertyIsAlwaysAShorterBeginning) {
  std::mt19937 random(7);
  constexpr std::string_view kAlphabet = "ab.! \n\xE3\x80\x82";
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (std::size_t left = random() % 20; left > 0; --left) {
      text += kAlphabet[random() % kAlphabet.size()];
    }
    const std::size_t most = random() % 20;
    EXPECT_LE(Sentences(text, most).size(), most);
    EXPECT_NE(text.find(Sentences(text, most)), std::string::npos);
    EXPECT_LE(ReadSummary(text, most).size(), most);
  }
}

TEST(SummaryStateTest, ComesBackAndRefusesWhatIsNotOurs) {
  SummaryState state{"s", "w", {"a", "b"}, "m1", "m2", 2};
  EXPECT_EQ(SummaryState::FromJson(state.ToJson()).value(), state);
  EXPECT_EQ(SummaryState::FromJson("").value(), SummaryState());
  for (const std::string text : {"{", "[]", "{}", R"({"version":1})"}) {
    EXPECT_EQ(SummaryState::FromJson(text).status().code(), absl::StatusCode::kDataLoss);
  }
  state.earlier.assign(4, std::string(400'000, 'x'));
  EXPECT_LE(state.ToJson().size(), kMaxBlockState);
  EXPECT_EQ(SummaryState::FromJson(state.ToJson())->summary, "s");
}

class SummaryBlockTest : public testing::Test, protected BlockFixture {};

TEST_F(SummaryBlockTest, RollsOn) {
  Make("summary", R"({"model":"chat","max_tokens":100})");
  EXPECT_TRUE(Render()->empty());
  models.chat->replies = {"Ann said hello.", "Ann said hello and good bye."};
  ASSERT_TRUE(Feed({Text("user", "hello"), Text("assistant", "hi")}).ok());
  EXPECT_EQ(Said(), "Ann said hello.");
  ASSERT_TRUE(Feed({Text("user", "good bye")}).ok());
  EXPECT_EQ(Said(), "Ann said hello and good bye.");
  EXPECT_EQ(models.chat->calls[1].request.max_tokens, 100);
  EXPECT_THAT(models.chat->Prompt(1), HasSubstr("Ann said hello."));
  EXPECT_THAT(models.chat->Prompt(1), HasSubstr("<message number=\"1\" role=\"user\">good bye"));
  const SummaryState stored = SummaryState::FromJson(state.state).value();
  EXPECT_EQ(stored.first_id, "m1");
  EXPECT_EQ(stored.last_id, "m3");
  EXPECT_EQ(stored.messages, 3);
  EXPECT_THAT(stored.earlier, ElementsAre("Ann said hello."));
}

TEST_F(SummaryBlockTest, WhatWasNotSummarisedIsGivenAgain) {
  Make("summary", R"({"model":"chat"})");
  models.chat->replies = {"First.", ""};
  ASSERT_TRUE(Feed({Text("user", "one")}).ok());
  ASSERT_TRUE(Feed({Text("user", "two")}).ok());
  EXPECT_EQ(Said(), "First.");
  EXPECT_EQ(stats.unreadable_answers.load(), 1U);
  models.chat->replies = {"All."};
  ASSERT_TRUE(Feed({Text("user", "three")}).ok());
  EXPECT_THAT(models.chat->Prompt(2), HasSubstr(">two</message>\n<message"));
  EXPECT_THAT(models.chat->Prompt(2), HasSubstr(">three</message>"));
  EXPECT_EQ(Said(), "All.");
  EXPECT_EQ(SummaryState::FromJson(state.state)->waiting, "");
}

TEST_F(SummaryBlockTest, WhatWaitsIsBounded) {
  Make("summary", R"({"model":"chat"})");
  for (int i = 0; i < 12; ++i) {
    models.chat->replies = {""};
    ASSERT_TRUE(Feed({Text("user", std::string(20'000, 'x'))}).ok());
  }
  const SummaryState stored = SummaryState::FromJson(state.state).value();
  EXPECT_LE(stored.waiting.size(), std::size_t{128} << 10);
  EXPECT_TRUE(stored.waiting.starts_with("<message "));
}

TEST_F(SummaryBlockTest, PassesErrorsOn) {
  Make("summary", R"({"model":"chat"})");
  models.chat->replies = {absl::UnavailableError("gone")};
  EXPECT_EQ(Feed({Text("user", "one")}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(state, BlockState());
}

TEST_F(SummaryBlockTest, TruncatesAtASentence) {
  Make("summary", R"({"model":"chat"})");
  models.chat->replies = {"One two three. Four five. Six."};
  ASSERT_TRUE(Feed({Text("user", "x")}).ok());
  const BlockContent all = Render().value();
  EXPECT_EQ(Truncate(all, 1).parts.at(0).text, "One two three. Four five.");
  EXPECT_EQ(Truncate(all, 2).parts.at(0).text, "One two three.");
  EXPECT_TRUE(Truncate(all, 4).empty());
  EXPECT_TRUE(Truncate(all, 6).empty());
}

}  // namespace
}  // namespace memoryd
