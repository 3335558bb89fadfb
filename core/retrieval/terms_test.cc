#include "core/retrieval/terms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/utf8_decode.h"
#include "core/model/language.h"
#include "core/retrieval/folding.h"
#include "core/retrieval/stemmers.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> TermsOf(std::string_view text, TermKind wanted,
                                 Language language = Language::kEnglish) {
  std::vector<std::string> terms;
  ForEachTerm(FoldedText(text), language,
              [&](std::string_view term, TermKind kind, std::string_view) {
                if (kind == wanted) terms.emplace_back(term);
              });
  return terms;
}

std::vector<std::string> Words(std::string_view text, Language language = Language::kEnglish) {
  return TermsOf(text, TermKind::kWord, language);
}

TEST(TermsTest, EnglishWordsAreStemmedWithoutCase) {
  EXPECT_THAT(Words("Painting, PAINTED; painter's relational-generalizations"),
              ElementsAre("paint", "paint", "painter", "relat", "general"));
}

TEST(TermsTest, ApostrophesJoinAndThePossessiveFalls) {
  EXPECT_THAT(Words("Ann's dogs' o'clock rock'n'roll 'quoted' 90's"),
              ElementsAre("ann", "dog", "oclock", "rockn", "roll", "quot", "90"));
  EXPECT_THAT(Words("Ann\u2019s o\u2019clock, Зоя's"), ElementsAre("ann", "oclock", "зоя"));
}

// U+0149 is one character.
TEST(TermsTest, AnApostropheWithinACharacterSeparatesToo) {
  EXPECT_THAT(Words("\u0149 dag"), ElementsAre("n", "dag"));
  EXPECT_THAT(Words("\u0149 dag", Language::kHungarian), ElementsAre("n", "dag"));
}

TEST(TermsTest, DigitsBelongToWords) {
  EXPECT_THAT(Words("b2things 3.14 2023-05-08 foo_bars"),
              ElementsAre("b2thing", "3", "14", "2023", "05", "08", "foo", "bar"));
}

TEST(TermsTest, StopWordsAreApartAndNeverEqualToAStem) {
  EXPECT_THAT(Words("The cat is on the mat, isn't it?"), ElementsAre("cat", "mat", "isnt"));
  EXPECT_THAT(TermsOf("The cat is", TermKind::kStopWord), ElementsAre("'the", "'is"));
  EXPECT_THAT(Words("cans wills"), ElementsAre("can", "will"));
}

TEST(TermsTest, AccentsAndCompatibilityFormsDoNotCount) {
  EXPECT_THAT(Words("Zürich café cafe\u0301 ＣＡＦÉ"),
              ElementsAre("zurich", "cafe", "cafe", "cafe"));
  EXPECT_THAT(Words("Straße STRASSE ﬁnch"), ElementsAre("strass", "strass", "finch"));
  EXPECT_THAT(Words("co\u00ADoperate one\u200Btwo x²"), ElementsAre("cooper", "one", "two", "x2"));
}

TEST(TermsTest, OtherAlphabetsFold) {
  EXPECT_THAT(Words("ПРИВЕТ, Ёлка"), ElementsAre("привет", "елка"));
  EXPECT_THAT(Words("ΣΊΣΥΦΟΣ σίσυφος"), ElementsAre("σισυφοσ", "σισυφοσ"));
  EXPECT_THAT(Words("شُكْرًا"), ElementsAre("شكرا"));
}

TEST(TermsTest, VowelSignsOfIndicScriptsStay) {
  EXPECT_THAT(Words("हिन्दी हन्दा"), ElementsAre("हिन्दी", "हन्दा"));
}

TEST(TermsTest, RunsWithoutSpacesBecomePairs) {
  EXPECT_THAT(Words("東京都"), ElementsAre("東京", "京都"));
  EXPECT_THAT(Words("Python入門3"), ElementsAre("python", "入門", "3"));
  EXPECT_THAT(Words("서울에서"), ElementsAre("서울", "울에", "에서"));
  EXPECT_THAT(Words("カタカナ、ひらがな"),
              ElementsAre("カタ", "タカ", "カナ", "ひら", "らが", "がな"));
}

TEST(TermsTest, VoicedKanaAndHangulAreTheSameInEveryForm) {
  EXPECT_THAT(Words("ガス"), ElementsAre("ガス"));
  EXPECT_THAT(Words("カ\u3099ス"), ElementsAre("ガス"));
  EXPECT_THAT(Words("ｶﾞｽ"), ElementsAre("ガス"));
  EXPECT_THAT(Words("カス"), ElementsAre("カス"));
  EXPECT_THAT(Words("\u1112\u1161\u11AB\u1100\u116E\u11A8"), ElementsAre("한국"));
}

TEST(TermsTest, MarksStayWithTheirCharacterInPairs) {
  // Thai: the vowel sign of the first pair is kept, its tone mark is not.
  EXPECT_THAT(Words("ดี่มา"), ElementsAre("ดีม", "มา"));
}

TEST(TermsTest, SingleCharactersAreWordsAloneAndOtherwiseApart) {
  EXPECT_THAT(Words("猫, 犬"), ElementsAre("猫", "犬"));
  EXPECT_THAT(TermsOf("黒猫だ", TermKind::kCharacter), ElementsAre("黒", "猫", "だ"));
  EXPECT_THAT(TermsOf("猫", TermKind::kCharacter), IsEmpty());
}

TEST(TermsTest, LongTermsAreCutBetweenCharacters) {
  EXPECT_THAT(Words(std::string(1000, 'x')), ElementsAre(std::string(kMaxTermBytes, 'x')));
  std::string cyrillic = "x";
  std::string cut = "x";
  for (int i = 0; i < 100; ++i) cyrillic += "ж";
  for (int i = 0; i < 31; ++i) cut += "ж";
  EXPECT_THAT(Words(cyrillic), ElementsAre(cut));
  // A cut word has the stem that it has by itself.
  const std::string long_word = std::string(kMaxTermBytes - 3, 'a') + "ing";
  EXPECT_THAT(Words(long_word + "s"),
              ElementsAre(Stemmers().StemOf(long_word, Language::kEnglish)));
  EXPECT_EQ(Stemmers().StemOf(long_word, Language::kEnglish), std::string(kMaxTermBytes - 3, 'a'));
  EXPECT_THAT(Words(long_word + "ж"),
              ElementsAre(Stemmers().StemOf(long_word, Language::kEnglish)));
}

TEST(TermsTest, WhatIsNotUtf8SeparatesWords) {
  EXPECT_THAT(Words("red\xFFgreen\xC3"), ElementsAre("red", "green"));
  EXPECT_THAT(Words("blue\xED\xA0\x80gold"), ElementsAre("blue", "gold"));
  EXPECT_THAT(Words(std::string_view("one\0two", 7)), ElementsAre("one", "two"));
  EXPECT_THAT(Words("🎉 — …"), IsEmpty());
  EXPECT_THAT(Words(""), IsEmpty());
}

// Long runs are folded piece by piece.
TEST(TermsTest, LongRunsLoseNothing) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "é";
  text += " ";
  for (int i = 0; i < 5000; ++i) text += i % 2 == 0 ? "東" : "京";
  EXPECT_EQ(Words(text).size(), 1u + 4999u);
  // One character that becomes eighteen.
  std::string wide;
  for (int i = 0; i < 2000; ++i) wide += "\uFDFA";
  EXPECT_EQ(Words(wide).size(), 2000u * 3 + 1);
}

TEST(TermsTest, AnyBytesGiveTermsThatAreShortUtf8) {
  std::mt19937 generator(20230508);
  // Leading and continuing bytes of the scripts with rules of their own, and anything.
  constexpr std::string_view kLikely =
      "aZ9' \xC3\xA9\xE0\xA4\xB9\xE3\x82\x99\xEA\xB0\xF0\x9F\xCC\x81";
  std::size_t visited = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text(generator() % 200, '\0');
    for (char& c : text) {
      c = generator() % 8 == 0 ? static_cast<char>(generator() % 256)
                               : kLikely[generator() % kLikely.size()];
    }
    const auto language = static_cast<Language>(generator() % kLanguages);
    ForEachTerm(FoldedText(text), language, [&](std::string_view term, TermKind, std::string_view) {
      ++visited;
      ASSERT_FALSE(term.empty());
      ASSERT_LE(term.size(), kMaxTermBytes);
      for (const char *p = term.data(), *end = p + term.size(); p < end;) {
        const std::size_t length =
            static_cast<unsigned char>(*p) < 0x80 ? 1 : DecodeUtf8(p, end).length;
        ASSERT_NE(length, 0u) << testing::PrintToString(text);
        p += length;
      }
    });
  }
  EXPECT_GT(visited, 10000u);
}

TEST(TermsTest, ALanguageHasItsStemsAndFunctionWords) {
  EXPECT_THAT(Words("Die Bücher und das Buch der Gärten", Language::kGerman),
              ElementsAre("buch", "buch", "gart"));
  EXPECT_THAT(TermsOf("Die Bücher", TermKind::kStopWord, Language::kGerman), ElementsAre("'die"));
  EXPECT_THAT(Words("les réparations réparées", Language::kFrench), ElementsAre("repar", "repar"));
  EXPECT_THAT(Words("книги о книгах", Language::kRussian), ElementsAre("книг", "книг"));
  // Words of another script than the language's are English.
  EXPECT_THAT(Words("книги cars", Language::kRussian), ElementsAre("книг", "car"));
  EXPECT_THAT(Words("книги", Language::kGerman), ElementsAre("книги"));
}

TEST(TermsTest, OutsideOfEnglishApostrophesSeparateWords) {
  EXPECT_THAT(Words("l'enseigne d\u2019ouverture", Language::kFrench),
              ElementsAre("enseign", "ouvertur"));
  EXPECT_THAT(Words("İzmir'de", Language::kTurkish), ElementsAre("izmir"));
}

TEST(TermsTest, TurkishHasALetterWithoutADot) {
  EXPECT_THAT(Words("IŞIK ışık isik", Language::kTurkish), ElementsAre("isik", "isik", "isik"));
}

TEST(TermsTest, AccentsMayBeCharactersOfTheirOwn) {
  EXPECT_THAT(Words("habitacio\u0301n habitación", Language::kSpanish),
              ElementsAre("habit", "habit"));
}

TEST(TermsTest, PartsOfWordsAreApart) {
  EXPECT_THAT(TermsOf("Eintöpfe 12345 Rad", TermKind::kPart, Language::kGerman),
              ElementsAre("-eint", "+topf"));
  EXPECT_THAT(TermsOf("переезд", TermKind::kPart, Language::kRussian), ElementsAre("-пере"));
  EXPECT_THAT(TermsOf("stews", TermKind::kPart), IsEmpty());
  // Ids that begin alike are others.
  EXPECT_THAT(TermsOf("w12x44 rechnung2023", TermKind::kPart, Language::kGerman), IsEmpty());
}

}  // namespace
}  // namespace memoryd
