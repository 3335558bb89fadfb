// Texts as they are compared: without case and accents, and what each character is to a word.
#ifndef MEMORYD_CORE_RETRIEVAL_FOLDING_H_
#define MEMORYD_CORE_RETRIEVAL_FOLDING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace memoryd {

struct FoldOptions {
  bool accents = false;  // Whether they stay.
  bool turkish = false;  // Whether a capital I is that of the letter without a dot.
};

// `text` in lower case, without compatibility forms. Bytes that are not UTF-8 become spaces.
std::string Fold(std::string_view text, FoldOptions options = {});

// A text and what Fold() makes of it. Borrows `text`.
struct FoldedText {
  explicit FoldedText(std::string_view source) : text(source), folded(Fold(source)) {}

  std::string_view text;
  std::string folded;
};

// The beginning of `text`: at most `bytes`, to the end of a character.
std::string_view BeginningOf(std::string_view text, std::size_t bytes);

enum class CharClass : std::uint8_t {
  kSeparator,
  kWord,
  kPaired,      // Of a script that becomes pairs, see terms.h.
  kPairedMark,  // Belongs to the character before it.
};

struct FoldedChar {
  CharClass kind;
  std::size_t length;  // In bytes.
};

inline bool IsAscii(char c) { return static_cast<unsigned char>(c) < 0x80; }
inline bool IsAsciiLetter(char c) { return c >= 'a' && c <= 'z'; }
inline bool IsAsciiWord(char c) { return IsAsciiLetter(c) || (c >= '0' && c <= '9'); }

FoldedChar CharBeyondAscii(const char* p, const char* end);

// The character at `p` < `end`.
inline FoldedChar CharAt(const char* p, const char* end) {
  if (!IsAscii(*p)) return CharBeyondAscii(p, end);
  return {IsAsciiWord(*p) ? CharClass::kWord : CharClass::kSeparator, 1};
}

bool IsAscii(std::string_view text);

// Whether the text begins with a letter, with a Han character, with one of Hiragana or Katakana.
bool IsLetter(std::string_view text);
bool IsHan(std::string_view text);
bool IsKana(std::string_view text);

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_FOLDING_H_
