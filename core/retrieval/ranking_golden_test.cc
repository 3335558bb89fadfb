// Rankings as tests/retrieval/make_golden.py has written them down, from a program of its own.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/model/ranking_options.h"
#include "core/retrieval/quantized_vectors.h"
#include "core/retrieval/search.h"
#include "core/retrieval/session_index.h"
#include "core/retrieval/word_vectors.h"

namespace memoryd {
namespace {

constexpr double kTolerance = 1e-3;

const nlohmann::json& Golden() {
  static const nlohmann::json golden = [] {
    std::ifstream file(MEMORYD_TEST_RANKINGS);
    return nlohmann::json::parse(file);
  }();
  return golden;
}

void Fill(const nlohmann::json& messages, SessionIndex& index) {
  std::int64_t position = 0;
  for (const nlohmann::json& message : messages) {
    const std::string name = message["name"];
    const std::string thread = message["thread_id"];
    const std::string text = message["text"];
    IndexedItem item;
    item.position = position++;
    item.name = name;
    item.role = "user";
    item.thread_id = thread;
    item.text = text;
    if (message.contains("create_us")) item.create_us = message["create_us"].get<std::int64_t>();
    index.Add(item);
  }
}

class RankingGoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Holds the index' answers against those written down under `expected`.
  static void Expect(const IndexOptions& options, const RankingOptions& ranking,
                     const char* expected) {
    const nlohmann::json& chat = Golden().at(GetParam());
    SessionIndex index(options);
    Fill(chat["messages"], index);
    std::size_t answers = 0;
    for (const nlohmann::json& question : chat["questions"]) {
      const std::string query = question["text"];
      SearchRequest request;
      request.query = query;
      request.top_k = 10;
      request.ranking = ranking;
      const std::vector<SearchHit> hits = index.Search(request);
      const nlohmann::json& wanted = question[expected];
      ASSERT_EQ(hits.size(), wanted.size()) << query;
      for (std::size_t i = 0; i < hits.size(); ++i) {
        EXPECT_EQ(hits[i].position, wanted[i][0].get<std::int64_t>()) << query << ", place " << i;
        EXPECT_NEAR(hits[i].raw_score, wanted[i][1].get<double>(), kTolerance) << query;
        ++answers;
      }
    }
    EXPECT_GT(answers, 15u);
  }
};

TEST_P(RankingGoldenTest, WithVectors) {
  const auto vectors = WordVectors::Load(MEMORYD_TEST_WORD_VECTORS);
  ASSERT_TRUE(vectors.ok()) << vectors.status();
  IndexOptions options;
  options.vectors = *vectors;
  options.precision = Precision::k16Bits;
  Expect(options, {}, "with_vectors");
}

TEST_P(RankingGoldenTest, ByWordsAndSpeakers) { Expect({}, {}, "without_vectors"); }

INSTANTIATE_TEST_SUITE_P(Chats, RankingGoldenTest,
                         ::testing::Values("friends", "assistant", "mixed", "details"),
                         [](const auto& of) { return of.param; });

}  // namespace
}  // namespace memoryd
