// Chats in languages other than English: testdata/languages.json has, for each, messages and
// questions with the message that answers them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/model/ranking_options.h"
#include "core/retrieval/search.h"
#include "core/retrieval/session_index.h"
#include "core/retrieval/word_vectors.h"

namespace memoryd {
namespace {

const nlohmann::json& Chats() {
  static const nlohmann::json chats = [] {
    std::ifstream file(MEMORYD_TEST_LANGUAGES);
    return nlohmann::json::parse(file);
  }();
  return chats;
}

class LanguagesTest : public ::testing::TestWithParam<std::string> {
 protected:
  static const nlohmann::json& chat() { return Chats().at(GetParam()); }
  static std::int64_t size() { return static_cast<std::int64_t>(chat()["messages"].size()); }

  static IndexOptions WithVectors() {
    auto vectors = WordVectors::Load(MEMORYD_TEST_WORD_VECTORS);
    EXPECT_TRUE(vectors.ok()) << vectors.status();
    IndexOptions options;
    if (vectors.ok()) options.vectors = *std::move(vectors);
    return options;
  }

  static void Say(SessionIndex& index, std::int64_t position, std::string_view name,
                  std::string_view text) {
    IndexedItem item;
    item.position = position;
    item.role = "user";
    item.name = name;
    item.text = text;
    index.Add(item);
  }

  // The chat, from position `begin` on.
  static void SayAll(SessionIndex& index, std::int64_t begin = 0) {
    for (const nlohmann::json& message : chat()["messages"]) {
      Say(index, begin++, message["name"].get<std::string>(), message["text"].get<std::string>());
    }
  }

  static std::vector<std::int64_t> Ask(const SessionIndex& index, std::string_view query,
                                       const RankingOptions& ranking = {}) {
    SearchRequest request;
    request.query = query;
    request.top_k = 5;
    request.ranking = ranking;
    std::vector<std::int64_t> positions;
    for (const SearchHit& hit : index.Search(request)) positions.push_back(hit.position);
    return positions;
  }

  // Calls `check` with what is found for each question, and the position that answers it.
  template <typename Check>
  static void AskAll(const SessionIndex& index, const Check& check) {
    for (const nlohmann::json& question : chat()["questions"]) {
      const std::string query = question["text"];
      const std::vector<std::int64_t> found = Ask(index, query);
      SCOPED_TRACE(query + ": " + testing::PrintToString(found));
      ASSERT_FALSE(found.empty());
      check(found, question["answer"].get<std::int64_t>());
    }
  }
};

TEST_P(LanguagesTest, AnswersComeFirst) {
  for (const IndexOptions& options : {IndexOptions(), WithVectors()}) {
    SessionIndex index(options);
    SayAll(index);
    AskAll(index, [](const auto& found, std::int64_t answer) { EXPECT_EQ(found[0], answer); });
  }
}

TEST_P(LanguagesTest, WhereEverythingIsSaidTwiceBothComeFirst) {
  for (const IndexOptions& options : {IndexOptions(), WithVectors()}) {
    SessionIndex index(options);
    SayAll(index);
    SayAll(index, size());
    AskAll(index, [](std::vector<std::int64_t> found, std::int64_t answer) {
      ASSERT_GE(found.size(), 2U);
      std::sort(found.begin(), found.begin() + 2);
      EXPECT_EQ(found[0], answer);
      EXPECT_EQ(found[1], answer + size());
    });
  }
}

// A turn of everything that was said, again and again: about 100,000 tokens of most vocabularies.
TEST_P(LanguagesTest, ATurnOfEverythingDoesNotComeBeforeAnswers) {
  std::string all;
  for (const nlohmann::json& message : chat()["messages"]) {
    all += message["text"].get<std::string>() + ' ';
  }
  std::string turn;
  while (turn.size() < 400'000) turn += all;
  for (const IndexOptions& options : {IndexOptions(), WithVectors()}) {
    SessionIndex index(options);
    SayAll(index);
    Say(index, size(), chat()["messages"][0]["name"].get<std::string>(), turn);
    AskAll(index, [](const auto& found, std::int64_t answer) { EXPECT_EQ(found[0], answer); });
  }
}

// A question among 2,000 other words, and the whole chat as the question.
TEST_P(LanguagesTest, LongQueriesFindWhatIsSaidInThem) {
  std::string words;
  for (int i = 0; i < 2000; ++i) words += " w" + std::to_string(i * 7919 % 2000) + "x";
  std::string all;
  SessionIndex index;
  SayAll(index);
  std::int64_t position = 0;
  for (const nlohmann::json& message : chat()["messages"]) {
    const std::string text = message["text"];
    all += text;
    EXPECT_EQ(Ask(index, words + " " + text + words, WordsAlone()).front(), position++) << text;
  }
  while (all.size() < 30'000) all += all;
  EXPECT_EQ(Ask(index, all).size(), 5U);
  SessionIndex with_vectors(WithVectors());
  SayAll(with_vectors);
  EXPECT_EQ(Ask(with_vectors, all).size(), 5U);
  EXPECT_EQ(Ask(with_vectors, words).size(), 5U);
}

INSTANTIATE_TEST_SUITE_P(Chats, LanguagesTest,
                         ::testing::Values("chinese", "japanese", "korean", "german", "russian",
                                           "thai"),
                         [](const auto& of) { return of.param; });

}  // namespace
}  // namespace memoryd
