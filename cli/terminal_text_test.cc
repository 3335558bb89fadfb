#include "cli/terminal_text.h"

#include <gtest/gtest.h>

#include <string>

namespace memoryd::cli {
namespace {

TEST(EscapeForTerminal, KeepsWhatIsPrintable) {
  EXPECT_EQ(EscapeForTerminal("Grüße, 世界 🙂 e\u0301"), "Grüße, 世界 🙂 e\u0301");
  EXPECT_EQ(EscapeForTerminal(""), "");
}

TEST(EscapeForTerminal, EscapesWhatWouldDriveATerminal) {
  EXPECT_EQ(EscapeForTerminal("\x1b[2Jgone"), "\\u{1B}[2Jgone");
  EXPECT_EQ(EscapeForTerminal("a\nb\r\tc"), "a\\nb\\r\\tc");
  EXPECT_EQ(EscapeForTerminal(std::string("\0\x07\x7f", 3)), "\\u{0}\\u{7}\\u{7F}");
  // The one-character form of ESC [.
  EXPECT_EQ(EscapeForTerminal("\u009b2J"), "\\u{9B}2J");
}

TEST(EscapeForTerminal, EscapesWhatWouldLookOtherwiseThanItIs) {
  EXPECT_EQ(EscapeForTerminal("a\u202eb\u200bc\u2066"), "a\\u{202E}b\\u{200B}c\\u{2066}");
  EXPECT_EQ(EscapeForTerminal("a\u2028b\u2029"), "a\\u{2028}b\\u{2029}");
  EXPECT_EQ(EscapeForTerminal("\ue000\U0010ffff"), "\\u{E000}\\u{10FFFF}");
}

TEST(EscapeForTerminal, TellsAnEscapeFromATextThatLooksLikeOne) {
  EXPECT_EQ(EscapeForTerminal("\\n"), "\\\\n");
}

TEST(EscapeForTerminal, ShowsBytesThatAreNoUtf8) {
  EXPECT_EQ(EscapeForTerminal("a\xff\xc3"), "a\\xFF\\xC3");
}

TEST(DisplayWidth, CountsColumns) {
  EXPECT_EQ(DisplayWidth("abc"), 3);
  EXPECT_EQ(DisplayWidth("世界"), 4);
  EXPECT_EQ(DisplayWidth("e\u0301"), 1);
}

TEST(CutToWidth, CutsBetweenCharacters) {
  EXPECT_EQ(CutToWidth("abcdef", 6), "abcdef");
  EXPECT_EQ(CutToWidth("abcdef", 5), "abcd…");
  EXPECT_EQ(CutToWidth("世界世", 6), "世界世");
  EXPECT_EQ(CutToWidth("世界世", 5), "世界…");
  EXPECT_EQ(CutToWidth("世界世", 4), "世…");
  EXPECT_EQ(CutToWidth("abc", 1), "…");
  EXPECT_EQ(CutToWidth("abc", 0), "");
}

}  // namespace
}  // namespace memoryd::cli
