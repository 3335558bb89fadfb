// Words that find others like them, by the table of vectors that the server has.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "core/retrieval/search.h"
#include "core/retrieval/session_index.h"
#include "core/retrieval/word_vectors.h"

namespace memoryd {
namespace {

class ExpansionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto vectors = WordVectors::Load(MEMORYD_TEST_WORD_VECTORS);
    ASSERT_TRUE(vectors.ok()) << vectors.status();
    IndexOptions options;
    options.vectors = *vectors;
    index_ = SessionIndex(options);
    for (const char* text : {"The kitten sleeps.", "Taxes are due.", "She sings in a choir."}) {
      IndexedItem item;
      item.position = position_++;
      item.role = "user";
      item.name = "Ann";
      item.text = text;
      index_.Add(item);
    }
  }

  // What the words of `query` are worth to the message of the kitten.
  double WordsOfKitten(const std::string& query) {
    SearchRequest request;
    request.query = query;
    request.top_k = 3;
    for (const SearchHit& hit : index_.Search(request)) {
      if (hit.position == 0) return hit.parts.words;
    }
    ADD_FAILURE() << "no hit for " << query;
    return -1;
  }

  SessionIndex index_;
  std::int64_t position_ = 0;
};

TEST_F(ExpansionTest, AWordFindsOneThatIsLikeIt) { EXPECT_GT(WordsOfKitten("cat"), 0); }

TEST_F(ExpansionTest, InALongQueryTheFirst64WordsDo) {
  std::string others;
  for (int i = 0; i < 63; ++i) others += "word" + std::to_string(i) + "x ";
  EXPECT_GT(WordsOfKitten(others + "cat"), 0);
  EXPECT_EQ(WordsOfKitten(others + "another cat"), 0);
  EXPECT_GT(WordsOfKitten(others + "another kitten"), 0) << "the word itself always counts";
}

}  // namespace
}  // namespace memoryd
