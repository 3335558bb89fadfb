#include "core/retrieval/passage_ranking.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/model/language.h"
#include "core/retrieval/query_terms.h"

namespace memoryd {
namespace {

PassageQuery QueryOf(std::string_view text, double rarity = 1) {
  PassageQuery query;
  query.bm25_k1 = 1.2;
  for (QueryWord& word : QueryTerms(text)) {
    word.terms.front().weight = rarity;
    query.AddWord(std::move(word));
  }
  return query;
}

std::size_t Best(const std::vector<std::string_view>& passages, const PassageQuery& query) {
  return BestOf(passages, query);
}

TEST(PassageRankingTest, ThePassageWithTheWordsIsTheBest) {
  EXPECT_EQ(Best({"The harbour.", "A red boat left.", "Nobody saw it."}, QueryOf("red boats")), 1U);
}

TEST(PassageRankingTest, ARareWordCountsMoreThanManyOfACommonOne) {
  PassageQuery query = QueryOf("boat", 1);
  query.AddWord({"lighthouse", {{"lighthous", 3}}});
  EXPECT_EQ(Best({"boat boat boat boat", "a lighthouse"}, query), 1U);
}

TEST(PassageRankingTest, AWordCountsByTheBestOfItsTerms) {
  PassageQuery query = QueryOf("");
  query.language = Language::kGerman;
  query.AddWord({"eintopf", {{"eintopf"}, {"-eint", 0.6}, {"+topf", 0.5}}});
  query.AddWord({"kartoffel", {{"kartoffel", 1.2}}});
  EXPECT_EQ(Best({"Der Eintopf.", "Die Kartoffel."}, query), 1U);
  // Two words may share a part.
  query.AddWord({"eintrag", {{"eintrag", 0.9}, {"-eint", 0.6}}});
  EXPECT_EQ(Best({"Die Kartoffel.", "Ein Eintritt."}, query), 0U);
  query.words.back().back().weight = 0.7;
  EXPECT_EQ(Best({"Die Kartoffel.", "Ein Eintritt."}, query), 1U);
}

TEST(PassageRankingTest, OfEqualsTheFirstIsTaken) {
  EXPECT_EQ(Best({"nothing here", "a boat", "another boat"}, QueryOf("boat")), 1U);
  EXPECT_EQ(Best({"nothing here", "nor there"}, QueryOf("boat")), 0U);
  EXPECT_EQ(Best({"nothing here"}, QueryOf("")), 0U);
  EXPECT_EQ(Best({}, QueryOf("boat")), 0U);
}

}  // namespace
}  // namespace memoryd
