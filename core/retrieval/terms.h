// From text to the terms by which it is found.
#ifndef MEMORYD_CORE_RETRIEVAL_TERMS_H_
#define MEMORYD_CORE_RETRIEVAL_TERMS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"

namespace memoryd {

enum class TermKind : std::uint8_t {
  // What texts are found by. A text's length is the number of its words.
  kWord,
  // A frequent English word. Only a query made of nothing else looks for it.
  kStopWord,
  // A character of a run that becomes pairs. Only a query for this one character looks for it.
  kCharacter,
};

// A longer term is cut, at the end of a character.
inline constexpr std::size_t kMaxTermBytes = 64;

// `word` is what the term was made of, in lower case and before the stemming; empty for characters,
// pairs of them and stop words.
using TermVisitor =
    absl::FunctionRef<void(std::string_view term, TermKind kind, std::string_view word)>;

// Visits the terms of `text` in their order, the same one as often as it is there. A term is not
// empty, and valid during the visit only. Any bytes will do: what is not UTF-8 separates words.
//
// - Case, accents and compatibility forms do not count: "ＣＡＦÉ" is "cafe". Vowel signs that are
//   letters in their script stay.
// - A word is a run of letters and digits of any script; one of ASCII alone is reduced to its
//   English stem (Porter2). "don't" is "dont", "Ann's" is "ann".
// - Han, kana, Hangul, Thai, Lao, Khmer and Myanmar do not set words apart, or write particles
//   on to them. A run of them becomes its overlapping pairs of characters (東京都: 東京, 京都), so
//   that any part of two characters is found; a single character is a word by itself.
//
// A stop word's term is no other word's: it begins with an apostrophe.
void ForEachTerm(std::string_view text, TermVisitor visit);

// The terms to look for when `text` is the query, each once, in their order: its words, or its stop
// words when it has no others ("who is he").
std::vector<std::string> QueryTerms(std::string_view text);

struct QueryWord {
  std::string word;  // As the visitor has it.
  std::string term;
};

// As QueryTerms(), but words of the same stem each once.
std::vector<QueryWord> QueryWords(std::string_view text);

// The English stem (Porter2) of a word of ASCII letters and digits; others as they are, cut as
// terms are.
std::string StemOf(std::string_view word);

// One word of a name or of a question, to be compared: as terms are, without what is no letter or
// digit at its end, and without "'s": "Zoë's?" is "zoe".
std::string NameWord(std::string_view word);

// Whether a word that NameWord() gave is two or more characters, all of the scripts that become
// pairs: its like may stand anywhere in a run of them.
bool IsUnspaced(std::string_view word);

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_TERMS_H_
