// Words as terms: their stems, and the parts that words made of them share.
#ifndef MEMORYD_CORE_RETRIEVAL_STEMMERS_H_
#define MEMORYD_CORE_RETRIEVAL_STEMMERS_H_

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "core/model/language.h"
#include "core/retrieval/folding.h"

struct sb_stemmer;

namespace memoryd {

// A longer term is cut, at the end of a character.
inline constexpr std::size_t kMaxTermBytes = 64;

// Of a longer word only its beginning is looked at, in English texts kMaxTermBytes of it. The time
// that some stemmers take grows with the square of a word's length.
inline constexpr std::size_t kMaxWordBytes = 128;

inline std::string_view CutTerm(std::string_view term) { return BeginningOf(term, kMaxTermBytes); }
inline std::string_view CutWord(std::string_view word) { return BeginningOf(word, kMaxWordBytes); }

// A word of Turkish with a dot on each i. Capital letters do not tell the two apart where other
// languages' words stand in a Turkish text.
std::string WithDots(std::string_view word);

// A word without its accents; in Turkish also with a dot on each i.
std::string Plain(std::string_view word, Language language);

// Snowball's stemmers, each made when it is first needed.
class Stemmers {
 public:
  Stemmers() = default;

  // The term by which a word is found in texts of the language: its stem without accents. English
  // for words that are not of the language's script. `word` is in lower case.
  std::string StemOf(std::string_view word, Language language);

  // The same of a word that CutWord() gave; for English it must be without accents.
  std::string TermOf(std::string_view word, Language language);

  // What Snowball makes of such a word, whatever its script. Valid until the next call.
  std::string_view Stem(std::string_view word, Language language);

 private:
  struct Delete {
    void operator()(sb_stemmer* stemmer) const;
  };

  std::array<std::unique_ptr<sb_stemmer, Delete>, kLanguages> stemmers_;
};

struct WordForms {
  std::string_view word;   // In lower case.
  std::string_view plain;  // Plain() of it.
  std::string_view term;   // TermOf() it.
};

// Calls visit(part, weight) for the parts of a word, with what they count in a query. One with a
// digit has none.
void ForEachPart(const WordForms& forms, Language language,
                 absl::FunctionRef<void(std::string part, double weight)> visit);

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_STEMMERS_H_
