#include "core/tokens/pretokenizer.h"

#include <string>
#include <string_view>
#include <vector>

#include "core/tokens/code_point_class.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Pieces(PieceEndFunction piece_end, std::string_view text) {
  std::vector<std::string> pieces;
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const char* const next = piece_end(CodePointTable::Get(), p, end);
    pieces.emplace_back(p, next);
    p = next;
  }
  return pieces;
}

std::vector<std::string> Cl100k(std::string_view text) { return Pieces(Cl100kPieceEnd, text); }
std::vector<std::string> O200k(std::string_view text) { return Pieces(O200kPieceEnd, text); }

TEST(PretokenizerTest, WordTakesOneCharacterBeforeIt) {
  EXPECT_THAT(Cl100k("Hi there,you  all"), ElementsAre("Hi", " there", ",you", " ", " all"));
  EXPECT_THAT(O200k("Hi there,you  all"), ElementsAre("Hi", " there", ",you", " ", " all"));
  EXPECT_THAT(Cl100k("a\nb\n"), ElementsAre("a", "\n", "b", "\n"));
}

TEST(PretokenizerTest, ContractionIsAPieceInCl100kAndASuffixInO200k) {
  EXPECT_THAT(Cl100k("don't YOU'LL we'\u017Fo"),
              ElementsAre("don", "'t", " YOU", "'LL", " we", "'\u017F", "o"));
  EXPECT_THAT(O200k("don't YOU'LL we'\u017Fo"), ElementsAre("don't", " YOU'LL", " we'\u017F", "o"));
  EXPECT_THAT(Cl100k("x'"), ElementsAre("x", "'"));
  EXPECT_THAT(Cl100k("x'v"), ElementsAre("x", "'v"));
}

TEST(PretokenizerTest, NumbersAreCutInThrees) {
  EXPECT_THAT(Cl100k("a1234567"), ElementsAre("a", "123", "456", "7"));
  EXPECT_THAT(O200k("\u0661\u0662\u0663\u2167"), ElementsAre("\u0661\u0662\u0663", "\u2167"));
}

TEST(PretokenizerTest, WhiteSpaceIsCutAtItsLastNewlineAndBeforeTheNextWord) {
  EXPECT_THAT(Cl100k("a \n \n  b"), ElementsAre("a", " \n \n", " ", " b"));
  EXPECT_THAT(Cl100k("a   1"), ElementsAre("a", "  ", " ", "1"));
  EXPECT_THAT(O200k("a \n \n  b"), ElementsAre("a", " \n \n", " ", " b"));
}

TEST(PretokenizerTest, WhiteSpaceAtTheEndIsOnePieceInCl100kOnly) {
  EXPECT_THAT(Cl100k("a\n  "), ElementsAre("a", "\n  "));
  EXPECT_THAT(O200k("a\n  "), ElementsAre("a", "\n", "  "));
}

TEST(PretokenizerTest, SymbolsTakeTheNewlinesBehindThem) {
  EXPECT_THAT(Cl100k(" !?\r\n\n/ x"), ElementsAre(" !?\r\n\n", "/", " x"));
  EXPECT_THAT(O200k(" !?\r\n\n/\n x"), ElementsAre(" !?\r\n\n/\n", " x"));
}

TEST(PretokenizerTest, O200kCutsWordsByCase) {
  EXPECT_THAT(O200k("camelCaseHTMLParser"), ElementsAre("camel", "Case", "HTMLParser"));
  EXPECT_THAT(O200k("HTML5"), ElementsAre("HTML", "5"));
  // A letter without case ends the match that must not give it back.
  EXPECT_THAT(O200k("AB\u4E2DCD"), ElementsAre("AB\u4E2D", "CD"));
  EXPECT_THAT(O200k("!AB"), ElementsAre("!AB"));
}

TEST(PretokenizerTest, MarksBelongToWordsInO200kAndToSymbolsInCl100k) {
  EXPECT_THAT(Cl100k("a\u0301b"), ElementsAre("a", "\u0301b"));
  EXPECT_THAT(Cl100k(" \u0301!"), ElementsAre(" \u0301!"));
  EXPECT_THAT(O200k("a\u0301b!\u0301"), ElementsAre("a\u0301b", "!\u0301"));
  // Before capitals alone a mark is a word of its own; before a lower-case letter, its beginning.
  EXPECT_THAT(O200k("!!"
                    "A\u0301"
                    "BC"),
              ElementsAre("!!", "A\u0301", "BC"));
  EXPECT_THAT(O200k("\u0301BC"), ElementsAre("\u0301", "BC"));
  EXPECT_THAT(O200k("\u0301Bc"), ElementsAre("\u0301Bc"));
}

TEST(PretokenizerTest, ByteThatIsNotUtf8IsASymbol) {
  EXPECT_THAT(Cl100k("a\xFF\xFE b\xE4\xB8"), ElementsAre("a", "\xFF\xFE", " b", "\xE4\xB8"));
}

TEST(CodePointTableTest, KnowsEveryPlane) {
  const CodePointTable& table = CodePointTable::Get();
  EXPECT_EQ(table.Of('A'), kUpper);
  EXPECT_EQ(table.Of(0x1C5), kUpper);  // Lt
  EXPECT_EQ(table.Of('z'), kLower);
  EXPECT_EQ(table.Of(0x4E2D), kUncased);
  EXPECT_EQ(table.Of(0x301), kMark);
  EXPECT_EQ(table.Of(0xBD), kNumber);
  EXPECT_EQ(table.Of(0x3000), kSpace);
  EXPECT_EQ(table.Of(0x1C), kOther);  // Python's white space, not \s.
  EXPECT_EQ(table.Of(0x2A6DF), kUncased);
  EXPECT_EQ(table.Of(0x3FFFF), kOther);
  EXPECT_EQ(table.Of(0x40000), kOther);
  EXPECT_EQ(table.Of(0xE00FF), kOther);
  EXPECT_EQ(table.Of(0xE0100), kMark);
  EXPECT_EQ(table.Of(0xE01EF), kMark);
  EXPECT_EQ(table.Of(0xE01F0), kOther);
  EXPECT_EQ(table.Of(0x10FFFF), kOther);
}

}  // namespace
}  // namespace memoryd
