#include "core/retrieval/passages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(PassagesTest, AShortTextIsOnePassage) {
  EXPECT_THAT(SplitIntoPassages("", 10), IsEmpty());
  EXPECT_THAT(SplitIntoPassages(" \n\t ", 10), IsEmpty());
  EXPECT_THAT(SplitIntoPassages(" one two. \n", 10), ElementsAre("one two."));
  EXPECT_THAT(SplitIntoPassages("0123456789", 10), ElementsAre("0123456789"));
}

TEST(PassagesTest, LinesComeBeforeSentencesAndSentencesBeforeWords) {
  EXPECT_THAT(SplitIntoPassages("one. two three\nfour five", 18),
              ElementsAre("one. two three", "four five"));
  EXPECT_THAT(SplitIntoPassages("one two. three four", 15), ElementsAre("one two.", "three four"));
  EXPECT_THAT(SplitIntoPassages("one two three four", 15), ElementsAre("one two three", "four"));
  // A line that ends early would leave little.
  EXPECT_THAT(SplitIntoPassages("a\nbcd efghi jklmn", 13), ElementsAre("a\nbcd efghi", "jklmn"));
}

TEST(PassagesTest, WithoutSpacesCharactersStayWhole) {
  EXPECT_THAT(SplitIntoPassages("東京都に住んで", 3), ElementsAre("東京都", "に住ん", "で"));
  EXPECT_THAT(SplitIntoPassages("abc", 0), ElementsAre("a", "b", "c"));
  EXPECT_THAT(SplitIntoPassages(std::string(10, '\x80'), 3), SizeIs(1))
      << "not UTF-8, but no crash";
}

TEST(PassagesTest, NothingButSpaceIsLost) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "word" + std::to_string(i) + (i % 7 == 0 ? ". " : " ");
  std::string joined;
  for (const std::string_view passage : SplitIntoPassages(text, 100)) {
    EXPECT_LE(CharacterCount(passage), 100U);
    joined.append(passage).append(" ");
  }
  EXPECT_EQ(joined, text);
}

}  // namespace
}  // namespace memoryd
