#include "core/retrieval/posting_lists.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace memoryd {
namespace {

using Items = std::vector<std::pair<DocId, std::uint32_t>>;

Items ItemsOf(const PostingLists& lists, std::string_view term) {
  Items items;
  const PostingLists::List* const list = lists.Find(term);
  if (list == nullptr) return items;
  for (auto cursor = lists.Walk(*list); !cursor.done(); cursor.Next()) {
    items.emplace_back(cursor.doc(), cursor.count());
  }
  EXPECT_EQ(items.size(), list->doc_count());
  return items;
}

TEST(PostingListsTest, ATermThatNobodyHasIsNotFound) {
  PostingLists lists;
  EXPECT_EQ(lists.Find("cat"), nullptr);
  lists.Add("dog", 0);
  EXPECT_EQ(lists.Find("cat"), nullptr);
}

TEST(PostingListsTest, CountsHowOftenAnItemHasATerm) {
  PostingLists lists;
  lists.Add("cat", 0);
  lists.Add("cat", 0);
  lists.Add("dog", 0);
  lists.Add("cat", 7);
  EXPECT_EQ(ItemsOf(lists, "cat"), (Items{{0, 2}, {7, 1}}));
  EXPECT_EQ(ItemsOf(lists, "dog"), (Items{{0, 1}}));
}

TEST(PostingListsTest, KeepsLargeDistancesAndCounts) {
  PostingLists lists;
  constexpr DocId kFar = 4'000'000'000;
  for (int i = 0; i < 300; ++i) lists.Add("cat", 5);
  for (int i = 0; i < 20'000; ++i) lists.Add("cat", kFar);
  lists.Add("cat", kFar + 1);
  EXPECT_EQ(ItemsOf(lists, "cat"), (Items{{5, 300}, {kFar, 20'000}, {kFar + 1, 1}}));
}

class PostingListsModelTest : public ::testing::TestWithParam<unsigned> {};

TEST_P(PostingListsModelTest, HasWhatAMapWouldHave) {
  std::mt19937 random(GetParam());
  PostingLists lists;
  std::map<std::string, std::map<DocId, std::uint32_t>> model;
  DocId doc = 0;
  for (int i = 0; i < 5000; ++i) {
    const unsigned long step = random() % 50 == 0 ? 100'000 : 3;
    if (random() % 4 == 0) doc += static_cast<DocId>(random() % step);
    // Some terms are in most items and some in one.
    const std::string term = std::to_string(random() % (1 + random() % 500));
    lists.Add(term, doc);
    ++model[term][doc];
  }
  for (const auto& [term, items] : model) {
    EXPECT_EQ(ItemsOf(lists, term), Items(items.begin(), items.end())) << term;
  }
  EXPECT_GT(lists.ByteSize(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PostingListsModelTest, ::testing::Range(1U, 6U));

}  // namespace
}  // namespace memoryd
