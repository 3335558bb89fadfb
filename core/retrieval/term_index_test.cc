#include "core/retrieval/term_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "core/retrieval/posting_lists.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;

class TermIndexTest : public ::testing::Test {
 protected:
  TermIndexTest() {
    ranking_.bm25_k1 = 1.2;
    ranking_.bm25_b = 0.75;
  }
  void AddItem(std::initializer_list<std::string_view> words) {
    for (const std::string_view word : words) index_.Add(word);
    index_.EndItem(static_cast<std::uint32_t>(words.size()));
    scores_.push_back(0);
  }
  void Raise(std::string_view term, double weight = 1) {
    index_.RaiseToBm25(term, ranking_, weight, scores_, touched_);
  }

  TermIndex index_;
  RankingOptions ranking_;
  std::vector<double> scores_;
  std::vector<DocId> touched_;
};

TEST_F(TermIndexTest, GivesTheTextbooksScores) {
  AddItem({"cat", "cat", "dog"});
  AddItem({"cat"});
  AddItem({"dog", "bird"});
  EXPECT_EQ(index_.DocCount("cat"), 2U);
  EXPECT_EQ(index_.DocCount("fish"), 0U);
  Raise("cat");
  EXPECT_THAT(touched_, ElementsAre(0, 1));
  const double rarity = std::log(1 + (3 - 2 + 0.5) / (2 + 0.5));
  EXPECT_DOUBLE_EQ(index_.Rarity(2), rarity);
  // Six words in three items: two are usual.
  const auto bm25 = [&](double count, double length) {
    return rarity * 2.2 * count / (count + 1.2 * (0.25 + 0.75 * length / 2));
  };
  EXPECT_DOUBLE_EQ(scores_[0], bm25(2, 3));
  EXPECT_DOUBLE_EQ(scores_[1], bm25(1, 1));
  EXPECT_EQ(scores_[2], 0);
}

TEST_F(TermIndexTest, AScoreIsRaisedAndNeverLowered) {
  AddItem({"cat", "kitten"});
  Raise("cat");
  const double cat = scores_[0];
  Raise("kitten", 0.5);
  EXPECT_EQ(scores_[0], cat);
  Raise("kitten", 2);
  EXPECT_GT(scores_[0], cat);
  EXPECT_THAT(touched_, ElementsAre(0));
  Raise("fish");
  EXPECT_THAT(touched_, ElementsAre(0));
}

TEST_F(TermIndexTest, ItemsWithoutWordsScoreNothing) {
  AddItem({});
  AddItem({});
  Raise("cat");
  EXPECT_THAT(scores_, ElementsAre(0, 0));
}

}  // namespace
}  // namespace memoryd
