#include "core/retrieval/query_terms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/model/language.h"

namespace memoryd {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> FirstTerms(const std::vector<QueryWord>& words) {
  std::vector<std::string> terms;
  for (const QueryWord& word : words) terms.push_back(word.terms.front().term);
  return terms;
}

TEST(QueryTermsTest, EachTermStandsOnceInItsOrder) {
  EXPECT_THAT(FirstTerms(QueryTerms("painting the dog, paints of dogs")),
              ElementsAre("paint", "dog"));
  EXPECT_THAT(FirstTerms(QueryWords("painting the dog, paints of dogs")),
              ElementsAre("paint", "dog", "paint", "dog"));
  EXPECT_THAT(FirstTerms(QueryTerms("東京東京")), ElementsAre("東京", "京東", "東", "京"));
}

TEST(QueryTermsTest, StopWordsAreLookedForOnlyWhenThereIsNothingElse) {
  EXPECT_THAT(FirstTerms(QueryTerms("Who is he?")), ElementsAre("'who", "'is", "'he"));
  EXPECT_THAT(FirstTerms(QueryTerms("Who is Melanie?")), ElementsAre("melani"));
  EXPECT_THAT(FirstTerms(QueryTerms("何ですか")), ElementsAre("何で", "です", "すか"));
  EXPECT_THAT(QueryTerms("?!"), IsEmpty());
}

TEST(QueryTermsTest, AWordHasATermOfEachLanguageOfTheTexts) {
  const std::vector<QueryWord> words =
      QueryTerms("the Gardens", {Language::kEnglish, {Language::kEnglish, Language::kSpanish}});
  ASSERT_EQ(words.size(), 1U);
  EXPECT_THAT(FirstTerms(words), ElementsAre("garden"));
  ASSERT_EQ(words[0].terms.size(), 3U);
  EXPECT_EQ(words[0].terms[1].term, "gardens");
  EXPECT_EQ(words[0].terms[1].weight, 1);
  EXPECT_EQ(words[0].terms[2].term, "-gard");
  EXPECT_LT(words[0].terms[2].weight, 1);
}

TEST(QueryTermsTest, PairsCountLessAsTheyBelongToFunctionWords) {
  const std::vector<QueryWord> words = QueryTerms("我的猫叫什么");
  // 我的 and 什么 are not looked for, and 叫什 only a little.
  EXPECT_THAT(FirstTerms(words), ElementsAre("的猫", "猫叫", "叫什", "猫", "叫"));
  EXPECT_EQ(words[1].terms[0].weight, 1);
  EXPECT_LT(words[2].terms[0].weight, words[1].terms[0].weight);
}

// "INVOICES" is "ınvoıces" in Turkish.
TEST(QueryTermsTest, CapitalsOfATurkishQueryAreThoseOfOtherLanguagesToo) {
  const QueryLanguages languages{Language::kTurkish,
                                 {Language::kEnglish, Language::kGerman, Language::kTurkish}};
  for (const char* query : {"INVOICES", "\u0130nvoices", "invoices"}) {
    const std::vector<QueryWord> words = QueryTerms(query, languages);
    ASSERT_EQ(words.size(), 1U);
    std::vector<std::string> terms;
    for (const QueryTerm& term : words[0].terms) terms.push_back(term.term);
    EXPECT_THAT(terms, Contains("invoic")) << query;
    EXPECT_THAT(terms, Contains("-invo")) << query;
  }
  const std::vector<QueryWord> words = QueryTerms("KIRIK", languages);
  EXPECT_EQ(words[0].word, "k\u0131r\u0131k");
  // Accents are for the stemmers.
  EXPECT_THAT(QueryTerms("B\u00DCCHER", languages)[0].terms,
              Contains(::testing::Field(&QueryTerm::term, "buch")));
}

TEST(HasQueryWordsTest, LettersDigitsAndCharactersAreLookedFor) {
  for (const char* text : {"a", "7", "é", "猫", "? the"}) EXPECT_TRUE(HasQueryWords(text)) << text;
  for (const char* text : {"", "?!", "\xFF", "\u200B", "\u0301"})
    EXPECT_FALSE(HasQueryWords(text)) << text;
}

}  // namespace
}  // namespace memoryd
