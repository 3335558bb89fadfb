#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/language.h"
#include "core/retrieval/folding.h"
#include "core/retrieval/languages.h"
#include "core/retrieval/search.h"

namespace memoryd {
namespace {

constexpr ItemKind kMessage = ItemKind::kMessage;

// "" for a text that does not tell.
std::string_view ToldBy(std::string_view text) {
  const std::optional<Language> language = DetectLanguage(FoldedText(text)).language;
  return language.has_value() ? kLanguageCodes[static_cast<std::size_t>(*language)] : "";
}

bool IsHanText(std::string_view text) { return DetectLanguage(FoldedText(text)).is_han; }

TEST(DetectLanguageTest, FunctionWordsTell) {
  EXPECT_EQ(ToldBy("Where is the car that you have sold?"), "en");
  EXPECT_EQ(ToldBy("Ich habe die alten Bücher noch."), "de");
  EXPECT_EQ(ToldBy("Elle a vendu la voiture que nous avions."), "fr");
  EXPECT_EQ(ToldBy("¿Dónde está el coche que vendiste?"), "es");
  EXPECT_EQ(ToldBy("Bu akşam sinemaya gidecek misin?"), "tr");
  EXPECT_EQ(ToldBy("Bücher"), "");
  EXPECT_EQ(ToldBy("12.05"), "");
  EXPECT_EQ(ToldBy(""), "");
}

TEST(DetectLanguageTest, AWordTellsOnceHoweverOftenItStands) {
  EXPECT_EQ(ToldBy("Shoe size: 42. Shirt size: L, hat size: M"), "");
  EXPECT_EQ(ToldBy("var a = 1; var b = 2; var c = 3;"), "");
  EXPECT_EQ(ToldBy("ci:\n  name: ci\n  image: ci/base\n  script: ci/run\n"), "");
  EXPECT_EQ(ToldBy("die die die die"), "");
}

TEST(DetectLanguageTest, AnotherLanguageNeedsTwoMoreThanEnglish) {
  EXPECT_EQ(ToldBy("und oder"), "de");
  EXPECT_EQ(ToldBy("und oder where"), "");
  EXPECT_EQ(ToldBy("und oder wenn where"), "de");
  EXPECT_EQ(ToldBy("und oder wenn where is"), "");
}

TEST(DetectLanguageTest, OfEqualsNoneIsTold) {
  // As much German as French.
  EXPECT_EQ(ToldBy("und oder vous nous"), "");
  EXPECT_EQ(ToldBy("und oder wenn vous nous"), "de");
}

TEST(DetectLanguageTest, TheScriptOfMostWordsTells) {
  EXPECT_EQ(ToldBy("Где моя книга?"), "ru");
  EXPECT_EQ(ToldBy("Где мой iPhone?"), "ru");
  EXPECT_EQ(ToldBy("Where is the книга that you have?"), "en");
  EXPECT_EQ(ToldBy("أين كتابي؟"), "ar");
  // Several languages have these letters.
  EXPECT_EQ(ToldBy("ספר"), "");
}

TEST(DetectLanguageTest, NumbersTellNothing) {
  EXPECT_EQ(ToldBy("Встреча 12.05 в 14:30"), "ru");
  EXPECT_TRUE(IsHanText("会议在2024年12月5日14:30"));
  EXPECT_TRUE(IsHanText("会议 2024 12 05 14 30"));
}

TEST(DetectLanguageTest, HanAndKanaAreToldFromOtherScriptsWithoutSpaces) {
  EXPECT_TRUE(IsHanText("我的猫叫什么？"));
  EXPECT_TRUE(IsHanText("カタカナ"));
  EXPECT_FALSE(IsHanText("서울에서 만나요"));
  EXPECT_FALSE(IsHanText("แมวของฉัน"));
  EXPECT_FALSE(IsHanText("The word 猫 means cat."));
}

TEST(DetectLanguageTest, TheBeginningTells) {
  const std::string german = "Ich habe die alten Bücher noch. ";
  const std::string beginning(kHeadBytes - german.size(), '.');
  EXPECT_EQ(ToldBy(beginning + german), "de");
  EXPECT_EQ(ToldBy(std::string(kHeadBytes, '.') + german), "");
  // Cut within a character.
  EXPECT_EQ(ToldBy(german + std::string(kHeadBytes - german.size() - 1, '.') + "ж"), "de");
}

TEST(SessionLanguagesTest, WhatDoesNotTellIsAsMostBeforeIt) {
  SessionLanguages languages;
  const auto add = [&languages](std::string_view text) {
    return *languages.Add(kMessage, FoldedText(text)).language;
  };
  EXPECT_EQ(add("Gärten"), Language::kEnglish);
  EXPECT_TRUE(languages.is_english());
  EXPECT_EQ(add("Ich habe die alten Bücher noch."), Language::kGerman);
  EXPECT_EQ(add("Gärten"), Language::kGerman);
  EXPECT_FALSE(languages.is_english());
  // Of two languages that are told as often, the first one in the enum Language counts.
  EXPECT_EQ(add("Where is the car that you have sold?"), Language::kEnglish);
  EXPECT_EQ(add("Gärten"), Language::kEnglish);
  EXPECT_EQ(languages.Of("Gärten"), Language::kEnglish);
  EXPECT_EQ(languages.Of("Wann ist sie da?"), Language::kGerman);
  EXPECT_EQ(languages.used(), (std::vector<Language>{Language::kEnglish, Language::kGerman}));
}

TEST(SessionLanguagesTest, AGivenLanguageIsThatOfAllTexts) {
  SessionLanguages german(Language::kGerman);
  EXPECT_EQ(german.Add(kMessage, FoldedText("Gärten")).language, Language::kGerman);
  EXPECT_EQ(german.Add(kMessage, FoldedText("Where is the car?")).language, Language::kGerman);
  EXPECT_EQ(german.Of("Where is the car?"), Language::kGerman);
  EXPECT_EQ(german.used(), (std::vector<Language>{Language::kGerman}));
  // Chinese and Japanese have their dates whether they are given or told.
  SessionLanguages japanese(FindLanguage("ja"));
  EXPECT_TRUE(japanese.Add(kMessage, FoldedText("歯医者に行った")).is_han);
}

TEST(SessionLanguagesTest, TheUsualLanguageIsThatOfWhatDoesNotTell) {
  SessionLanguages languages(std::nullopt, Language::kGerman);
  EXPECT_EQ(languages.Add(kMessage, FoldedText("Gärten")).language, Language::kGerman);
  EXPECT_EQ(languages.Add(kMessage, FoldedText("Where is the car?")).language, Language::kEnglish);
  EXPECT_EQ(languages.Add(kMessage, FoldedText("Gärten")).language, Language::kGerman);
  EXPECT_EQ(languages.Of("Gärten"), Language::kGerman);
}

TEST(UsualLanguageTest, MostTextsHaveIt) {
  const std::vector<std::string> texts = {"Gärten", "Ich habe die alten Bücher noch.",
                                          "Where is the car that you have sold?",
                                          "Wann ist sie wieder da?"};
  EXPECT_EQ(UsualLanguage(texts), Language::kGerman);
  EXPECT_EQ(UsualLanguage({}), Language::kEnglish);
}

class InterleavingTest : public ::testing::TestWithParam<unsigned> {};

// Servers read the messages and the contents of a session in different orders.
TEST_P(InterleavingTest, LanguagesDoNotDependOnTheOrderBetweenKinds) {
  std::mt19937 generator(GetParam());
  constexpr const char* kTexts[] = {"Gärten",
                                    "42",
                                    "Ich habe die alten Bücher noch.",
                                    "Where is the car that you have sold?",
                                    "Elle a vendu la voiture que nous avions.",
                                    "Где моя книга?"};
  std::vector<std::string_view> of_kind[2];
  for (auto& texts : of_kind) {
    for (int i = 0; i < 20; ++i) texts.emplace_back(kTexts[generator() % std::size(kTexts)]);
  }
  const auto languages_in = [&of_kind](const std::vector<std::size_t>& kinds) {
    SessionLanguages languages;
    std::vector<Language> found[2];
    std::size_t next[2] = {};
    for (const std::size_t kind : kinds) {
      const FoldedText text(of_kind[kind][next[kind]++]);
      found[kind].push_back(*languages.Add(static_cast<ItemKind>(kind), text).language);
    }
    std::vector<Language> all = languages.used();
    all.push_back(languages.Of("Gärten"));
    for (const auto& of : found) all.insert(all.end(), of.begin(), of.end());
    return all;
  };
  std::vector<std::size_t> kinds(20, 0);
  kinds.resize(40, 1);
  const std::vector<Language> expected = languages_in(kinds);
  for (int i = 0; i < 20; ++i) {
    std::shuffle(kinds.begin(), kinds.end(), generator);
    EXPECT_EQ(languages_in(kinds), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, InterleavingTest, ::testing::Range(1u, 9u));

}  // namespace
}  // namespace memoryd
