#include "core/base/nearest_word.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace memoryd {
namespace {

const std::vector<std::string> kWords = {"get",    "put",      "query",        "sessions",
                                         "--json", "--target", "--token-file", "info"};

TEST(NearestWord, TakesAWordForOneWithAFewLettersWrong) {
  EXPECT_EQ(NearestWord("sesions", kWords), "sessions");
  EXPECT_EQ(NearestWord("sessoins", kWords), "sessions");
  EXPECT_EQ(NearestWord("ssesion", kWords), "sessions");
  EXPECT_EQ(NearestWord("gte", kWords), "get");
  EXPECT_EQ(NearestWord("qurey", kWords), "query");
  EXPECT_EQ(NearestWord("--traget", kWords), "--target");
  EXPECT_EQ(NearestWord("--jsn", kWords), "--json");
  EXPECT_EQ(NearestWord("get", kWords), "get");
}

TEST(NearestWord, TakesTheBeginningOfOneWordAlone) {
  EXPECT_EQ(NearestWord("sess", kWords), "sessions");
  EXPECT_EQ(NearestWord("--token", kWords), "--token-file");
  EXPECT_EQ(NearestWord("--t", {"--target-a", "--target-b"}), "");
}

TEST(NearestWord, LeavesAloneWhatIsNothingLikeIt) {
  for (const char* word : {"", "-", "--", "frobnicate", "xyz", "x", "--colour"}) {
    EXPECT_EQ(NearestWord(word, kWords), "") << word;
  }
  EXPECT_EQ(NearestWord(std::string(5'000'000, 'a'), kWords), "");
  EXPECT_EQ(NearestWord("get", {}), "");
}

TEST(NearestWord, IsAQuestionBehindAnError) {
  EXPECT_EQ(DidYouMean("gte", kWords), ": did you mean get?");
  EXPECT_EQ(DidYouMean("frobnicate", kWords), "");
}

}  // namespace
}  // namespace memoryd
