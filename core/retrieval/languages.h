// Which language a text is in.
#ifndef MEMORYD_CORE_RETRIEVAL_LANGUAGES_H_
#define MEMORYD_CORE_RETRIEVAL_LANGUAGES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/language.h"

namespace memoryd {

// Whether `word`, as Fold() gives it, is a function word of the language. Never for those without a
// list in function_words.inc.
bool IsFunctionWord(std::string_view word, Language language);

// For each of `characters`, a run of Chinese, Japanese or Thai ones, whether it belongs to a
// function word. The longest from the left counts.
std::vector<bool> InFunctionWords(const std::vector<std::string_view>& characters);

// Whether the language's stemmer is for a word of this script. Never for English.
bool IsOfScript(std::string_view word, Language language);

// Whether words are made of others, written together.
bool IsCompounding(Language language);

// The name of a month, 1 to 12, as dates have it; "" where it is not known.
std::string_view MonthName(int month, Language language);

struct TextLanguage {
  // None: the text does not tell.
  std::optional<Language> language;
  // It has more runs of characters of scripts without spaces than words.
  bool is_unspaced = false;
};

// What the first 2,000 bytes of a text tell: by the script of most words, else by function words
// and letters that few languages have. English needs two such words, and more than any other
// language has; any other needs two more than English. `folded` is Fold(text).
TextLanguage DetectLanguage(std::string_view text, std::string_view folded);

// The languages of a session.
class SessionLanguages {
 public:
  SessionLanguages() = default;
  // `given`: of all texts. None: each tells its own, or is in that of most texts before it.
  explicit SessionLanguages(std::optional<Language> given) : given_(given) {}

  // Of a text that is added to the session.
  TextLanguage Add(std::string_view text, std::string_view folded);
  // Of another text.
  Language Of(std::string_view text, std::string_view folded) const;

  // Those of the texts added, in their order; English before the first.
  std::vector<Language> used() const;
  bool is_english() const { return (used_ & ~std::uint32_t{1}) == 0; }

 private:
  static_assert(kLanguages <= 32);

  // That of most texts.
  Language usual() const;

  std::optional<Language> given_;
  std::uint32_t used_ = 0;  // A bit for each.
  std::array<std::uint32_t, kLanguages> counts_ = {};
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_LANGUAGES_H_
