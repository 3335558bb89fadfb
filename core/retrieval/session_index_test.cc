#include "core/retrieval/session_index.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "core/model/language.h"
#include "core/model/ranking_options.h"
#include "core/retrieval/search.h"

namespace memoryd {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::Pair;

constexpr ItemKind kMessage = ItemKind::kMessage;
constexpr ItemKind kContent = ItemKind::kContent;

IndexedItem Message(std::int64_t position, std::string_view text, std::string_view role = "user",
                    std::string_view thread_id = "") {
  IndexedItem item;
  item.kind = kMessage;
  item.position = position;
  item.role = role;
  item.thread_id = thread_id;
  item.text = text;
  return item;
}

IndexedItem Content(std::int64_t position, std::string_view text) {
  IndexedItem item;
  item.kind = kContent;
  item.position = position;
  item.text = text;
  return item;
}

std::vector<SearchHit> Search(const SessionIndex& index, std::string_view query,
                              SearchFilter filter = {}, std::size_t top_k = 10) {
  return index.Search({query, top_k, std::move(filter), WordsAlone()});
}

std::vector<std::pair<ItemKind, std::int64_t>> Items(const std::vector<SearchHit>& hits) {
  std::vector<std::pair<ItemKind, std::int64_t>> items;
  items.reserve(hits.size());
  for (const SearchHit& hit : hits) items.emplace_back(hit.kind, hit.position);
  return items;
}

std::vector<std::int64_t> Positions(const std::vector<SearchHit>& hits) {
  std::vector<std::int64_t> positions;
  positions.reserve(hits.size());
  for (const SearchHit& hit : hits) positions.push_back(hit.position);
  return positions;
}

TEST(SessionIndexTest, IndexesWithOneScaleAreMeasuredAsOne) {
  SessionIndex good;
  good.Add(Message(1, "red apple"));
  good.Add(Message(2, "blue sky"));
  SessionIndex bad;
  bad.Add(Message(1, "red brick, and a long wall of many others around it"));
  bad.Add(Message(2, "blue sky"));
  SearchRequest request{"red apple", 10, {}, WordsAlone()};
  const double best = good.Scale(request).words;
  EXPECT_GT(best, bad.Scale(request).words);
  EXPECT_EQ(good.Scale(request).cosine, 0);
  EXPECT_EQ(SessionIndex().Scale(request).words, 0);
  EXPECT_DOUBLE_EQ(bad.Search(request).front().score, 1);
  const double share = bad.Scale(request).words / best;
  request.scale.words = best;
  EXPECT_DOUBLE_EQ(bad.Search(request).front().score, share);
  EXPECT_DOUBLE_EQ(good.Search(request).front().score, 1);
  // What others have less of changes nothing.
  request.scale.words = best / 2;
  EXPECT_DOUBLE_EQ(good.Search(request).front().score, 1);
}

TEST(SessionIndexTest, ScoresAreBm25AsWrittenDown) {
  SessionIndex index;
  index.Add(Message(1, "red apple red"));
  index.Add(Message(2, "green apple"));
  index.Add(Message(3, "blue sky above all green hills"));
  index.Add(Content(1, "nothing"));
  // Words: 3, 2, 6, 1; 3 on average. idf = ln(1 + (4 - n + .5) / (n + .5)).
  const double idf_of_one = std::log(1 + 3.5 / 1.5);
  const double idf_of_two = std::log(1 + 2.5 / 2.5);
  // Length 3 is the average, so the denominator is tf + .9; length 2: tf + .9 * (.6 + .4 * 2 / 3).
  const double first = idf_of_one * 1.9 * 2 / (2 + 0.9) + idf_of_two * 1.9 / (1 + 0.9);
  const double second = idf_of_two * 1.9 / (1 + 0.9 * (0.6 + 0.4 * 2 / 3));

  const std::vector<SearchHit> hits = Search(index, "Red apples, red!");
  ASSERT_THAT(Positions(hits), ElementsAre(1, 2));
  EXPECT_EQ(hits[0].score, 1);
  EXPECT_THAT(hits[1].score, DoubleNear(second / first, 1e-12));
}

TEST(SessionIndexTest, StopWordsNeitherLengthenNorMatchBesideOtherWords) {
  SessionIndex index;
  index.Add(Message(1, "apple"));
  index.Add(Message(2, "this is the one and only apple of them all"));
  index.Add(Message(3, "who is he"));
  const std::vector<SearchHit> hits = Search(index, "the apple");
  EXPECT_THAT(Positions(hits), ElementsAre(1, 2));
  EXPECT_LT(hits[1].score, 1);  // "one" and "all" do count.
  EXPECT_THAT(Positions(Search(index, "who is he?")), ElementsAre(3, 2));
}

TEST(SessionIndexTest, TheBestComeFirstAndAtMostTopK) {
  SessionIndex index;
  index.Add(Message(1, "tea"));
  index.Add(Message(2, "tea tea tea"));
  index.Add(Message(3, "coffee"));
  index.Add(Message(4, "tea tea"));
  EXPECT_THAT(Positions(Search(index, "tea")), ElementsAre(2, 4, 1));
  EXPECT_THAT(Positions(Search(index, "tea", {}, 2)), ElementsAre(2, 4));
  EXPECT_THAT(Search(index, "tea", {}, 0), IsEmpty());
}

TEST(SessionIndexTest, OfEqualsMessagesComeFirstAndThenTheNewest) {
  SessionIndex index;
  index.Add(Content(1, "tea"));
  index.Add(Message(1, "tea"));
  index.Add(Content(2, "tea"));
  index.Add(Message(7, "tea"));
  EXPECT_THAT(Items(Search(index, "tea")), ElementsAre(Pair(kMessage, 7), Pair(kMessage, 1),
                                                       Pair(kContent, 2), Pair(kContent, 1)));
  EXPECT_THAT(Items(Search(index, "tea", {}, 1)), ElementsAre(Pair(kMessage, 7)));
}

TEST(SessionIndexTest, WhatHasNoWordOfTheQueryIsNoHit) {
  SessionIndex index;
  EXPECT_THAT(Search(index, "tea"), IsEmpty());
  index.Add(Message(1, ""));
  EXPECT_THAT(Search(index, "tea"), IsEmpty());
  index.Add(Message(2, "tea"));
  EXPECT_THAT(Search(index, "coffee"), IsEmpty());
  EXPECT_THAT(Search(index, ""), IsEmpty());
  EXPECT_THAT(Search(index, "\xFF"), IsEmpty());
}

class FilterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    index_.Add(Message(1, "tea tea tea", "user"));
    index_.Add(Message(2, "tea tea", "assistant", "work"));
    index_.Add(Message(3, "tea", "tool", "work"));
    index_.Add(Content(1, "tea, sugar"));
  }

  std::vector<std::pair<ItemKind, std::int64_t>> Found(SearchFilter filter) {
    return Items(Search(index_, "tea", std::move(filter)));
  }

  SessionIndex index_;
};

TEST_F(FilterTest, NoFilterPassesAll) {
  EXPECT_THAT(Found({}), ElementsAre(Pair(kMessage, 1), Pair(kMessage, 2), Pair(kMessage, 3),
                                     Pair(kContent, 1)));
}

TEST_F(FilterTest, ByRole) {
  SearchFilter filter;
  filter.roles = {"tool", "assistant", "unheard of"};
  EXPECT_THAT(Found(filter), ElementsAre(Pair(kMessage, 2), Pair(kMessage, 3)));
  filter.roles = {"unheard of"};
  EXPECT_THAT(Found(filter), IsEmpty());
  filter.roles = {""};
  EXPECT_THAT(Found(filter), IsEmpty());
}

TEST_F(FilterTest, ByThread) {
  SearchFilter filter;
  filter.thread_id = "work";
  EXPECT_THAT(Found(filter), ElementsAre(Pair(kMessage, 2), Pair(kMessage, 3)));
  filter.thread_id = "";
  EXPECT_THAT(Found(filter), ElementsAre(Pair(kMessage, 1)));
  filter.thread_id = "play";
  EXPECT_THAT(Found(filter), IsEmpty());
}

TEST_F(FilterTest, ByWhatTheCallerAccepts) {
  SearchFilter filter;
  filter.accept = [](ItemKind kind, std::int64_t position) {
    return kind == kContent || position < 2;
  };
  EXPECT_THAT(Found(filter), ElementsAre(Pair(kMessage, 1), Pair(kContent, 1)));
}

TEST_F(FilterTest, AllMustHold) {
  SearchFilter filter;
  filter.roles = {"user", "tool"};
  filter.thread_id = "work";
  filter.accept = [](ItemKind, std::int64_t position) { return position < 4; };
  EXPECT_THAT(Found(filter), ElementsAre(Pair(kMessage, 3)));
}

TEST_F(FilterTest, ScoresAreThoseWithoutAFilter) {
  const double unfiltered = Search(index_, "tea").back().score;
  SearchFilter filter;
  filter.accept = [](ItemKind kind, std::int64_t) { return kind == kContent; };
  const std::vector<SearchHit> hits = Search(index_, "tea", filter, 1);
  ASSERT_THAT(Items(hits), ElementsAre(Pair(kContent, 1)));
  EXPECT_EQ(hits[0].score, unfiltered);
}

TEST(SessionIndexTest, FindsAnyTwoCharactersOfTextWithoutSpaces) {
  SessionIndex index;
  index.Add(Message(1, "昨日は京都で黒猫を見ました。"));
  index.Add(Message(2, "서울에서 만나요"));
  EXPECT_THAT(Positions(Search(index, "京都")), ElementsAre(1));
  EXPECT_THAT(Positions(Search(index, "猫")), ElementsAre(1));
  EXPECT_THAT(Positions(Search(index, "서울")), ElementsAre(2));
  EXPECT_THAT(Search(index, "울서"), IsEmpty());
  // A Han character may be a word.
  EXPECT_THAT(Positions(Search(index, "白猫")), ElementsAre(1));
}

TEST(SessionIndexTest, DatesAreThoseOfTheZone) {
  IndexedItem item = Message(1, "ramen");
  item.create_us = 1'680'130'800'000'000;  // 2023-03-29T23:00:00Z
  SessionIndex in_utc{IndexOptions()};
  in_utc.Add(item);
  EXPECT_THAT(Positions(Search(in_utc, "29 March")), ElementsAre(1));
  EXPECT_THAT(Search(in_utc, "30"), IsEmpty());
  IndexOptions options;
  options.zone = absl::FixedTimeZone(9 * 3600);
  SessionIndex in_tokyo(options);
  in_tokyo.Add(item);
  EXPECT_THAT(Positions(Search(in_tokyo, "30 March")), ElementsAre(1));
  EXPECT_THAT(Search(in_tokyo, "29"), IsEmpty());
  EXPECT_FALSE(options == IndexOptions());
}

TEST(SessionIndexTest, ChineseAndJapaneseHaveTheirDatesGivenOrNot) {
  IndexedItem item = Message(1, "歯医者に行った");
  item.create_us = 1'680'130'800'000'000;  // 2023-03-29T23:00:00Z
  for (const char* code : {"", "ja", "zh"}) {
    IndexOptions options;
    if (*code != '\0') options.language = FindLanguage(code);
    SessionIndex index(options);
    index.Add(item);
    EXPECT_THAT(Positions(Search(index, "3月29日")), ElementsAre(1)) << code;
  }
  item.text = "서울에서 만나요";
  SessionIndex korean;
  korean.Add(item);
  EXPECT_THAT(Search(korean, "月"), IsEmpty());
}

TEST(SessionIndexTest, AnIdFindsItsOwnTextInAnyLanguage) {
  SessionIndex index;
  index.Add(Message(1, "Où est la clé que tu as donnée à ta sœur avec les autres ?"));
  index.Add(Message(2, "w12x92"));
  index.Add(Message(3, "w12x44 dans une lettre avec beaucoup de mots pour les autres"));
  EXPECT_THAT(Positions(Search(index, "w12x44")), ElementsAre(3));
}

TEST(SessionIndexTest, NeighboursAreThoseOfTheThread) {
  SessionIndex index;
  index.Add(Message(1, "a", "user", "x"));
  index.Add(Content(1, "c"));
  index.Add(Message(2, "b", "user", "y"));
  index.Add(Message(5, "c", "user", "x"));
  index.Add(Message(6, "d", "user", "x"));
  index.Add(Message(7, "e", "user", ""));
  index.Add(Message(9, "f", "user", "x"));
  EXPECT_THAT(index.Neighbours(5, 1), ElementsAre(1, 6));
  EXPECT_THAT(index.Neighbours(5, 10), ElementsAre(1, 6, 9));
  EXPECT_THAT(index.Neighbours(9, 2), ElementsAre(5, 6));
  EXPECT_THAT(index.Neighbours(1, 1), ElementsAre(5));
  EXPECT_THAT(index.Neighbours(5, 0), IsEmpty());
  EXPECT_THAT(index.Neighbours(2, 3), IsEmpty());
  EXPECT_THAT(index.Neighbours(7, 3), IsEmpty());
  EXPECT_THAT(index.Neighbours(4, 3), IsEmpty());
  EXPECT_THAT(index.Neighbours(10, 3), IsEmpty());
}

TEST(SessionIndexTest, WhatFollowsAQuestionGetsMoreOfIt) {
  SessionIndex index;
  std::int64_t position = 0;
  for (const std::string_view said :
       {"A red apple.", "A red apple? No.", "A red apple?", "A red apple? \n", "A red apple\uFF1F",
        "A red apple\u061F"}) {
    const std::string thread = std::to_string(position);
    index.Add(Message(position++, said, "user", thread));
    index.Add(Message(position++, "A green apple.", "user", thread));
  }
  SearchRequest request{"red apple", 12, {}, WordsAlone()};
  request.ranking.neighbour_weight = 0.2;
  std::vector<double> lent(12);
  double of_question = 0;
  for (const SearchHit& hit : index.Search(request)) {
    lent[static_cast<std::size_t>(hit.position)] = hit.parts.neighbours;
    if (hit.position == 0) of_question = hit.parts.words;
  }
  const auto near = [](double value) { return DoubleNear(value, 1e-12); };
  // Every thread has the same words, so none is behind another.
  EXPECT_THAT(lent[1], near(0.2 * of_question));
  EXPECT_THAT(lent[3], near(lent[1]));
  for (const std::size_t answer : {5u, 7u, 9u, 11u}) EXPECT_THAT(lent[answer], near(2 * lent[1]));
  EXPECT_THAT(lent[4], near(lent[0]));
}

TEST(SessionIndexTest, AThreadPaysForWhatItIsBehindTheBest) {
  SessionIndex index;
  for (const std::int64_t position : {1, 2, 3}) {
    index.Add(Message(position, "red apple", "user", "long"));
  }
  index.Add(Message(4, "red apple", "user", "short"));
  index.Add(Content(1, "red apple"));
  SearchRequest request{"apple", 10, {}, WordsAlone()};
  request.ranking.neighbour_weight = request.ranking.thread_weight = 0.2;
  const std::vector<SearchHit> hits = index.Search(request);
  ASSERT_THAT(Items(hits), ElementsAre(Pair(kMessage, 2), Pair(kMessage, 3), Pair(kMessage, 1),
                                       Pair(kContent, 1), Pair(kMessage, 4)));
  EXPECT_DOUBLE_EQ(hits[0].raw_score, 1.4);
  EXPECT_DOUBLE_EQ(hits[3].raw_score, 1);
  EXPECT_DOUBLE_EQ(hits[4].raw_score, 1 - 0.2 * (1 - 1.0 / 3));
  EXPECT_LT(hits[4].parts.neighbours, 0);
}

TEST(SessionIndexTest, KnowsHowFarItGoes) {
  SessionIndex index;
  EXPECT_EQ(index.size(), 0u);
  EXPECT_EQ(index.LastPosition(kMessage), std::nullopt);
  index.Add(Message(0, "a"));
  index.Add(Content(41, "b"));
  index.Add(Message(3, "c"));
  EXPECT_EQ(index.size(), 3u);
  EXPECT_EQ(index.LastPosition(kMessage), 3);
  EXPECT_EQ(index.LastPosition(kContent), 41);
}

// Terms in more items than a stretch of the search, with all widths of distance and count.
TEST(SessionIndexTest, CountsAndDistancesOfAnySizeSurviveThePacking) {
  SessionIndex index;
  std::string many;
  for (int i = 0; i < 300; ++i) many += "rare ";
  for (std::int64_t position = 0; position < 20000; ++position) {
    const bool rare = position == 3 || position == 4 || position == 90 || position == 9000;
    index.Add(Message(position, rare ? (position == 90 ? many : "rare words") : "common words"));
  }
  index.Add(Message(20000, "rare words"));
  EXPECT_THAT(Positions(Search(index, "rare")), ElementsAre(90, 20000, 9000, 4, 3));
  EXPECT_EQ(Search(index, "words", {}, 100000).size(), 20000u);
  EXPECT_THAT(Positions(Search(index, "rare words", {}, 3)), ElementsAre(90, 20000, 9000));
}

// Sanitizers replace malloc, and then nobody knows what it has handed out.
std::vector<float> Direction(float x, float y) { return {x, y}; }

class EmbeddingTest : public ::testing::Test {
 protected:
  std::vector<SearchHit> Search(std::string_view query, std::vector<float> embedding,
                                double threshold = -1) {
    SearchRequest request;
    request.query = query;
    request.top_k = 10;
    request.ranking = WordsAlone();
    request.ranking.vector_threshold = threshold;
    request.embedding = embedding;
    return index_.Search(request);
  }

  SessionIndex index_;
};

TEST_F(EmbeddingTest, FindWhatHasNoWordOfTheQuery) {
  index_.Add(Message(1, "the dog barks"));
  index_.Add(Message(3, "rain all day"));
  index_.Add(Message(4, "a puppy"));
  index_.Add(Content(1, "the dog sleeps"));
  index_.AddEmbedding(1, Direction(3, 0));
  index_.AddEmbedding(3, Direction(0, 0.5F));
  index_.AddEmbedding(4, Direction(2, 2));
  EXPECT_EQ(index_.without_embedding(), 0U);
  const std::vector<SearchHit> hits = Search("hound", Direction(7, 0));
  // A content has no embedding, and no word of the query.
  ASSERT_THAT(Positions(hits), ElementsAre(1, 4, 3));
  EXPECT_THAT(hits[0].embedding_cosine, Optional(DoubleNear(1, 0.01)));
  EXPECT_THAT(hits[1].embedding_cosine, Optional(DoubleNear(std::sqrt(0.5), 0.01)));
  EXPECT_EQ(hits[0].cosine, std::nullopt);
  EXPECT_THAT(hits[0].parts.embedding, DoubleNear(hits[0].score, 1e-12));
  EXPECT_THAT(hits[1].parts.embedding / hits[0].parts.embedding, DoubleNear(std::sqrt(0.5), 0.01));
  EXPECT_EQ(hits[2].parts.embedding, 0);
  EXPECT_THAT(Positions(Search("hound", Direction(1, 0), 0.9)), ElementsAre(1));
  // Words count beside it.
  EXPECT_EQ(Search("rain", Direction(1, 0.9F)).front().position, 3);
}

TEST_F(EmbeddingTest, CountOnlyWhereTheyCanBeCompared) {
  index_.Add(Message(1, "dog"));
  index_.Add(Message(2, "cat"));
  index_.AddEmbedding(1, Direction(1, 0));
  const std::vector<float> larger = {1, 0, 0};
  index_.AddEmbedding(2, larger);
  EXPECT_EQ(index_.without_embedding(), 1U) << "of another size than the first";
  EXPECT_THAT(Search("bird", larger), IsEmpty());
  EXPECT_THAT(Search("bird", {}), IsEmpty());
  EXPECT_THAT(Positions(Search("bird", Direction(1, 0))), ElementsAre(1));
  index_.RemoveEmbeddings();
  EXPECT_EQ(index_.without_embedding(), 2U);
  EXPECT_THAT(Search("bird", Direction(1, 0)), IsEmpty());
  index_.AddEmbedding(2, larger);
  EXPECT_THAT(Positions(Search("bird", larger)), ElementsAre(2));
  // No direction at all is like nothing.
  EXPECT_EQ(Search("bird", {0, 0, 0}).front().parts.embedding, 0);
}

TEST_F(EmbeddingTest, KnowsWhichMessagesHaveNone) {
  using Range = std::pair<std::int64_t, std::int64_t>;
  for (const std::int64_t position : {2, 3, 5, 8, 9}) index_.Add(Message(position, "dog"));
  index_.Add(Content(1, "dog"));
  EXPECT_EQ(index_.NextWithoutEmbedding(0), Range(2, 9));
  EXPECT_EQ(index_.NextWithoutEmbedding(4), Range(5, 9));
  index_.AddEmbedding(5, Direction(1, 0));
  // One without words.
  index_.AddEmbedding(9, {});
  // Not in the index.
  index_.AddEmbedding(4, Direction(1, 0));
  index_.AddEmbedding(100, Direction(1, 0));
  // It has one.
  index_.AddEmbedding(5, Direction(0, 1));
  EXPECT_EQ(index_.NextWithoutEmbedding(0), Range(2, 3));
  EXPECT_EQ(index_.NextWithoutEmbedding(4), Range(8, 8));
  EXPECT_EQ(index_.NextWithoutEmbedding(9), std::nullopt);
  EXPECT_EQ(index_.without_embedding(), 3U);
  index_.Add(Message(10, "dog"));
  EXPECT_EQ(index_.NextWithoutEmbedding(9), Range(10, 10));
  const std::vector<SearchHit> hits = Search("dog", Direction(1, 0));
  EXPECT_EQ(hits.front().position, 5);
  EXPECT_THAT(hits.front().embedding_cosine, Optional(DoubleNear(1, 0.01)));
  EXPECT_EQ(hits.back().embedding_cosine, std::nullopt);
}

TEST_F(EmbeddingTest, AreAskedForWithoutNames) {
  IndexedItem said = Message(1, "hello");
  said.name = "Caroline";
  index_.Add(said);
  EXPECT_EQ(index_.EmbedderQuery("What did Caroline's sister say?"), "What did sister say?");
  EXPECT_EQ(index_.EmbedderQuery("Caroline"), "Caroline");
  EXPECT_EQ(index_.EmbedderQuery(" ?!"), "");
}

#ifndef MEMORYD_SANITIZED  // Their malloc counts nothing.
// What malloc has handed out and not got back.
std::size_t AllocatedBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(SessionIndexTest, ByteSizeIsNearTheTruth) {
  ASSERT_GT(AllocatedBytes(), 0u) << "malloc is not glibc's";
  for (const int count : {300, 3000, 30000}) {
    const std::size_t before = AllocatedBytes();
    SessionIndex index;
    std::uint64_t state = 1;
    for (std::int64_t position = 0; position < count; ++position) {
      std::string text;
      for (int word = 0; word < 20; ++word) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        // Few words are frequent, many are rare.
        const std::uint64_t number = (state >> 33) % (std::uint64_t{1} << (4 + (state >> 60)));
        text += fmt::format("{} {} ", number % 3 == 0 ? "the" : "of", number * 7919);
      }
      index.Add(Message(position, text, "user", fmt::format("thread-{}", position / 100)));
    }
    const auto truth = static_cast<double>(AllocatedBytes() - before + sizeof(index));
    EXPECT_NEAR(static_cast<double>(index.ByteSize()) / truth, 1, 0.2) << count << " messages";
  }
}
#endif

}  // namespace
}  // namespace memoryd
