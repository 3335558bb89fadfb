// From text to the terms by which it is found.
#ifndef MEMORYD_CORE_RETRIEVAL_TERMS_H_
#define MEMORYD_CORE_RETRIEVAL_TERMS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "core/model/language.h"
#include "core/retrieval/folding.h"

namespace memoryd {

enum class TermKind : std::uint8_t {
  // What texts are found by. A text's length is the number of its words.
  kWord,
  // A frequent word of the language. Only a query made of nothing else looks for it.
  kStopWord,
  // A character of a run that becomes pairs. A query for it alone looks for it, and one for a Han
  // character in a run.
  kCharacter,
  // The beginning of a word of four letters or more, or the end of its stem where words are made of
  // others ("Linseneintopf"). Counts less than the word. Never in English.
  kPart,
};

// `word` is what the term was made of, in lower case and before the stemming; empty for characters,
// pairs of them, parts and stop words. Of a long word that is its beginning, see stemmers.h.
using TermVisitor =
    absl::FunctionRef<void(std::string_view term, TermKind kind, std::string_view word)>;

// Visits the terms of `text` in their order, the same one as often as it is there. A term is not
// empty, and valid during the visit only. Any bytes will do: what is not UTF-8 separates words.
//
// - Case, accents and compatibility forms do not count: "ＣＡＦÉ" is "cafe". Vowel signs that are
//   letters in their script stay.
// - A word is a run of letters and digits of any script. One of the language's script is reduced to
//   its stem there (Snowball), another one of ASCII alone to its English stem (Porter2). In English
//   "don't" is "dont" and "Ann's" is "ann"; elsewhere an apostrophe separates words.
// - Han, kana, Hangul, Thai, Lao, Khmer and Myanmar do not set words apart, or write particles
//   on to them. A run of them becomes its overlapping pairs of characters (東京都: 東京, 京都), so
//   that any part of two characters is found; a single character is a word by itself.
//
// A stop word's term is no other word's: it begins with an apostrophe. A part's begins with - or +.
void ForEachTerm(const FoldedText& text, Language language, TermVisitor visit);

// One word of a name or of a question, to be compared: as terms are, without what is no letter or
// digit at its end, and without "'s": "Zoë's?" is "zoe".
std::string NameWord(std::string_view word);

// Whether a word that NameWord() gave is two or more characters, all of the scripts that become
// pairs: its like may stand anywhere in a run of them.
bool IsUnspaced(std::string_view word);

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_TERMS_H_
