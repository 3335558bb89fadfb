#include "core/blocks/fact_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Texts(const FactAnswer& answer) {
  std::vector<std::string> texts;
  for (const AnsweredFact& fact : answer.facts) texts.push_back(fact.text);
  return texts;
}

TEST(LlamaFactsTest, ReadsAsTheLibraryDoes) {
  EXPECT_THAT(LlamaFacts("<facts>\n  <fact> a \n</fact><fact>b</fact></facts>"),
              ElementsAre("a", "b"));
  EXPECT_THAT(LlamaFacts("<fact></fact><fact>  </fact><FACT>upper</FACT><fact a='1'>attr</fact>"),
              IsEmpty());
  EXPECT_THAT(LlamaFacts("<fact>a<fact>b</fact>c</fact>"), ElementsAre("a<fact>b"));
  EXPECT_THAT(LlamaFacts("<fact>two\n\nlines</fact> and <fact>&lt;raw</fact>"),
              ElementsAre("two\n\nlines", "&lt;raw"));
  EXPECT_THAT(LlamaFacts("<fact>open"), IsEmpty());
  EXPECT_THAT(LlamaFacts("no facts here"), IsEmpty());
  EXPECT_THAT(LlamaFacts("<fact>\xC2\xA0x\xE2\x80\x8B</fact>"), ElementsAre("x\xE2\x80\x8B"));
  EXPECT_EQ(LlamaFactLines({"a", "</fact>"}), "<fact>a</fact>\n<fact></fact></fact>");
  EXPECT_EQ(LlamaFactLines({}), "");
}

TEST(ReadFactAnswerTest, ReadsAttributes) {
  const FactAnswer answer = ReadFactAnswer(
      "<facts><fact evidence=\"1, 3\" replaces='#7' from=2>Ann likes tea &amp; "
      "rain</fact></facts>");
  ASSERT_TRUE(answer.understood);
  ASSERT_EQ(answer.facts.size(), 1U);
  EXPECT_EQ(answer.facts[0], (AnsweredFact{"Ann likes tea & rain", {1, 3}, {7}, {2}}));
}

struct Case {
  std::string answer;
  std::vector<std::string> facts;
};

class FormsTest : public testing::TestWithParam<Case> {};

TEST_P(FormsTest, IsUnderstood) {
  const FactAnswer answer = ReadFactAnswer(GetParam().answer);
  EXPECT_TRUE(answer.understood);
  EXPECT_EQ(Texts(answer), GetParam().facts);
}

INSTANTIATE_TEST_SUITE_P(
    WhatModelsWrite, FormsTest,
    testing::Values(
        Case{"<facts></facts>", {}}, Case{"<facts>\n</facts>\nThat is all.", {}},
        Case{"<fact>no wrapper</fact>", {"no wrapper"}},
        Case{"```xml\n<facts>\n<fact>fenced</fact>\n</facts>\n```", {"fenced"}},
        Case{"<FACTS><Fact>capitals</Fact></FACTS>", {"capitals"}},
        Case{"<facts><fact>never closed\n<fact>second</facts> tail", {"never closed", "second"}},
        Case{"<fact>two\nlines</fact>", {"two lines"}}, Case{"[\"one\", \"two\"]", {"one", "two"}},
        Case{"Here you are: [see below]\n```json\n[\"one\"]\n```", {"one"}},
        Case{"Facts [new]: [\"one\"]", {"one"}},
        Case{R"([{"fact":"f","evidence":[1,"2"]},{"text":"t"}])", {"f", "t"}},
        Case{R"({"facts": ["one"]})", {"one"}}, Case{R"({"facts": []})", {}}, Case{"[]", {}},
        Case{"1. first\n2) second\n\n- third\n* fourth\n\xE2\x80\xA2 fifth",
             {"first", "second", "third", "fourth", "fifth"}},
        Case{"<facts>\n- in a list\n</facts>", {"in a list"}}, Case{"No facts.", {}},
        Case{"none", {}}, Case{"There are no new facts in this conversation.", {}}));

TEST(ReadFactAnswerTest, TakesNothingFromNonsense) {
  for (const std::string text :
       {"", "   ", "I am sorry, I can't do that for you.", "the the the the", "{\"a\":", "[1,2,3]",
        "<factory>x</factory>", "{\"answer\": 42}"}) {
    const FactAnswer answer = ReadFactAnswer(text);
    EXPECT_FALSE(answer.understood) << text;
    EXPECT_THAT(answer.facts, IsEmpty()) << text;
  }
}

TEST(ReadFactAnswerTest, LeavesOutWhatIsNoFact) {
  EXPECT_THAT(Texts(ReadFactAnswer("<fact>...</fact><fact>-</fact><fact>ok</fact><fact>" +
                                   std::string(kMaxFactBytes + 1, 'x') + "</fact>")),
              ElementsAre("ok"));
}

// Any answer is read in time, and no fact breaks the rules.
TEST(ReadFactAnswerPropertyTest, TakesAnyAnswer) {
  static const std::array<std::string, 22> kPieces = {
      "<fact>",      "</fact>",   "<fact evidence=\"1,2\"",
      ">",           "<facts>",   "</facts>",
      "```",         "```json\n", "[",
      "]",           "{",         "}",
      "\"",          ",",         "\n- ",
      "1. ",         "no facts",  "&lt;",
      "caf\xC3\xA9", "\xFF",      "\x01",
      "word "};
  std::mt19937 random(3);
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (std::size_t left = random() % 30; left > 0; --left) {
      text += kPieces[random() % kPieces.size()];
    }
    const FactAnswer answer = ReadFactAnswer(text);
    EXPECT_TRUE(answer.understood || answer.facts.empty()) << text;
    EXPECT_LE(answer.facts.size(), kMaxAnsweredFacts);
    for (const AnsweredFact& fact : answer.facts) {
      EXPECT_FALSE(FactKey(fact.text).empty());
      EXPECT_LE(fact.text.size(), kMaxFactBytes);
      EXPECT_EQ(fact.text.find_first_of("\n\x01\xFF"), std::string::npos);
    }
    LlamaFacts(text);
  }
}

TEST(ReadFactAnswerPropertyTest, IsLinearInUnclosedTags) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "<fact>a ";
  EXPECT_EQ(ReadFactAnswer(text).facts.size(), kMaxAnsweredFacts);
}

TEST(FactKeyTest, JoinsWhatIsTheSame) {
  EXPECT_EQ(FactKey(" Ann  likes\n tea. "), "ann likes tea");
  EXPECT_NE(FactKey("Ann likes tea"), FactKey("Ann likes teas"));
}

}  // namespace
}  // namespace memoryd
