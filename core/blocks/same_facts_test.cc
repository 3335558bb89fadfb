#include "core/blocks/same_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/blocks/fact_state.h"
#include "core/blocks/fact_text.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Fact Known(std::int64_t id, std::string text, std::string writer = "") {
  Fact fact;
  fact.id = id;
  fact.text = std::move(text);
  fact.writer = std::move(writer);
  return fact;
}

AnsweredFact Answered(std::string text) {
  AnsweredFact fact;
  fact.text = std::move(text);
  return fact;
}

// The known fact and the answered one with this cosine.
AnsweredFact Mark(const Fact& known, std::string text, float cosine,
                  double similarity = kSameFactSimilarity) {
  FactState state;
  state.facts = {known};
  std::vector<AnsweredFact> answered = {Answered(std::move(text))};
  const std::vector<std::size_t> unknown = UnknownFacts(answered, state);
  // Lengths do not count.
  const float sine = std::sqrt(1 - cosine * cosine);
  MarkSame(answered, unknown, state, {{3 * cosine, 3 * sine}, {0.5F, 0}}, similarity);
  return answered[0];
}

TEST(MarkSameTest, OtherWordsConfirmAKnownFact) {
  const AnsweredFact fact =
      Mark(Known(7, "Nora lives in Bergen."), "Noras Zuhause ist Bergen", 0.96F);
  EXPECT_EQ(fact.same_as, 7);
  EXPECT_THAT(fact.replaces, IsEmpty());
}

TEST(MarkSameTest, BelowTheThresholdAFactIsNew) {
  EXPECT_EQ(Mark(Known(7, "Nora lives in Bergen."), "Noras Zuhause ist Bergen", 0.91F).same_as, 0);
  EXPECT_EQ(Mark(Known(7, "Nora lives in Bergen."), "Noras Zuhause ist Bergen", 0.91F, 0.9).same_as,
            7);
}

TEST(MarkSameTest, OfManySharedWordsTheLaterFactHolds) {
  const AnsweredFact fact = Mark(Known(7, "The choir rehearses on Wednesdays."),
                                 "The choir rehearses on Thursdays.", 0.96F);
  EXPECT_EQ(fact.same_as, 0);
  EXPECT_THAT(fact.replaces, ElementsAre(7));
}

TEST(MarkSameTest, WhatACallerWroteIsNotReplaced) {
  const AnsweredFact fact = Mark(Known(7, "The choir rehearses on Wednesdays.", "ann"),
                                 "The choir rehearses on Thursdays.", 0.96F);
  EXPECT_EQ(fact.same_as, 0);
  EXPECT_THAT(fact.replaces, IsEmpty());
}

TEST(MarkSameTest, OtherNumbersAndAnotherOrderAreTwoFacts) {
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"Ann prefers tea to coffee.", "Ann prefers coffee to tea."},
      {"Alice lent Bob 50 euros.", "Bob lent Alice 50 euros."},
      {"The meeting is on 4 March 2026.", "The meeting is on 5 March 2026."},
      {"The flat has 3 rooms.", "Die Wohnung hat 4 Zimmer."},
      {"Version 1.5 is installed.", "Version 15 is installed."},
  };
  for (const auto& [known, text] : pairs) {
    const AnsweredFact fact = Mark(Known(7, known), text, 0.999F);
    EXPECT_EQ(fact.same_as, 0) << text;
    EXPECT_THAT(fact.replaces, IsEmpty()) << text;
  }
}

TEST(MarkSameTest, TheMostAlikeCountsAndOneThatReplacesIsLeftAlone) {
  FactState state;
  state.facts = {Known(1, "Tom ist Koch."), Known(2, "Tom kocht beruflich.")};
  std::vector<AnsweredFact> answered = {Answered("TOM IST KOCH"),
                                        Answered("The man works as a chef"),
                                        Answered("He quit the kitchen")};
  answered[2].replaces = {1};
  const std::vector<std::size_t> unknown = UnknownFacts(answered, state);
  EXPECT_THAT(unknown, ElementsAre(1, 2));
  MarkSame(answered, unknown, state, {{1, 0.05F}, {1, 0}, {0.97F, 0.24F}, {1, 0}}, 0.9);
  EXPECT_EQ(answered[0].same_as, 0);
  EXPECT_EQ(answered[1].same_as, 2);
  EXPECT_EQ(answered[2].same_as, 0);
  EXPECT_THAT(answered[2].replaces, ElementsAre(1));
}

TEST(MarkSameTest, AVectorWithoutADirectionIsLikeNone) {
  FactState state;
  state.facts = {Known(1, "Tom ist Koch.")};
  std::vector<AnsweredFact> answered = {Answered("A chef, that man")};
  MarkSame(answered, std::vector<std::size_t>{0}, state, {{0, 0}, {0, 0}}, 0.5);
  EXPECT_EQ(answered[0].same_as, 0);
}

TEST(ShareManyWordsTest, CountsPairsOfLettersInAnyScript) {
  EXPECT_TRUE(ShareManyWords("Nora lives in Bergen.", "Nora lives in Oslo"));
  EXPECT_FALSE(ShareManyWords("Nora lives in Bergen.", "Noras Zuhause ist Bergen"));
  EXPECT_TRUE(ShareManyWords("会议改到星期三", "会议改到星期四"));
  EXPECT_FALSE(ShareManyWords("会议改到星期三", "The meeting was moved to Wednesday"));
  EXPECT_FALSE(ShareManyWords("Она живёт в Бергене", "She lives in Bergen"));
}

}  // namespace
}  // namespace memoryd
