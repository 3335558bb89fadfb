#include "core/base/visible_text.h"

#include <gtest/gtest.h>

#include <string>

namespace memoryd {
namespace {

TEST(ShowsAllCharactersTest, RefusesWhatUnicodeSaysIsIgnorable) {
  for (const std::string hidden :
       {"\u00AD",     "\u034F",     "\u115F",     "\u17B4",    "\u180B",     "\u180F",
        "\u200B",     "\u2060",     "\u2065",     "\u3164",    "\uFE00",     "\uFE0E",
        "\uFE0F",     "\uFEFF",     "\uFFA0",     "\uFFF3",    "\U0001D173", "\U000E0001",
        "\U000E0041", "\U000E007F", "\U000E0100", "\U000E0FFF"}) {
    EXPECT_FALSE(ShowsAllCharacters("user" + hidden + "1"));
    EXPECT_FALSE(ShowsAllCharacters(hidden));
    EXPECT_FALSE(ShowsAllCharacters("user1" + hidden));
  }
  for (const std::string seen : {"", "plain/id-1", "\u00AC\u00AE", "caf\u00E9", "\u6771\u4EAC",
                                 "\u202F", "\u3163\u3165", "\uFFFC", "\U0001F600"}) {
    EXPECT_TRUE(ShowsAllCharacters(seen)) << seen;
  }
}

TEST(ShowsAllCharactersTest, TakesTheSequencesOfEmojiAndNoOthers) {
  for (const std::string emoji :
       {"\u2764\uFE0F", "1\uFE0F\u20E3", "\U0001F468\u200D\U0001F469\u200D\U0001F467",
        "\U0001F3F3\uFE0F\u200D\U0001F308", "\u2764\uFE0F\u200D\U0001F525",
        "\U0001F9D1\U0001F3FD\u200D\U0001F4BB",
        "\U0001F3F4\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F"}) {
    EXPECT_TRUE(ShowsAllCharacters(emoji)) << emoji;
    EXPECT_TRUE(ShowsAllCharacters("a" + emoji + emoji + "b")) << emoji;
    EXPECT_FALSE(ShowsAllCharacters(emoji + "\u200D")) << emoji;
    EXPECT_FALSE(ShowsAllCharacters(emoji + "\uFE0F")) << emoji;
  }
  EXPECT_FALSE(ShowsAllCharacters("1\uFE0F"));
  EXPECT_FALSE(ShowsAllCharacters("a\u200Db"));
  EXPECT_FALSE(ShowsAllCharacters("\U0001F468\u200D\U0001F600"));
  // A flag of letters that no flag has.
  EXPECT_FALSE(ShowsAllCharacters("\U0001F3F4\U000E0061\U000E0062\U000E007F"));
}

TEST(ShowsAllCharactersTest, TakesJoinersWhereTheyChangeLetters) {
  // Persian: the non-joiner parts what would be joined, marks between or not.
  EXPECT_TRUE(ShowsAllCharacters("\u0645\u06CC\u200C\u062E\u0648\u0627\u0647\u0645"));
  EXPECT_TRUE(ShowsAllCharacters("\u0628\u064E\u200C\u064E\u0628"));
  EXPECT_FALSE(ShowsAllCharacters("\u0627\u200C\u0628"));  // Alef joins nothing behind it.
  EXPECT_FALSE(ShowsAllCharacters("\u0628\u200C"));
  EXPECT_FALSE(ShowsAllCharacters("\u200C\u0628"));
  EXPECT_FALSE(ShowsAllCharacters("\u0628\u200C\u200C\u0628"));
  EXPECT_FALSE(ShowsAllCharacters("\u0628\u200D\u0628"));
  // Devanagari, behind a Virama: both.
  EXPECT_TRUE(ShowsAllCharacters("\u0915\u094D\u200D\u0937"));
  EXPECT_TRUE(ShowsAllCharacters("\u0915\u094D\u200C\u0937"));
  EXPECT_FALSE(ShowsAllCharacters("\u0915\u200D\u0937"));
}

TEST(ShowsJoinersTest, LooksAtJoinersAlone) {
  EXPECT_TRUE(ShowsJoiners("a\uFE0F\u115F"));
  EXPECT_TRUE(ShowsJoiners("\U0001F468\u200D\U0001F4BB"));
  EXPECT_FALSE(ShowsJoiners("a\uFE0F\u200D"));
  EXPECT_FALSE(ShowsJoiners("a\u200Cb"));
}

}  // namespace
}  // namespace memoryd
