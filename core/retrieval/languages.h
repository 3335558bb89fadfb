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
#include "core/retrieval/folding.h"
#include "core/retrieval/search.h"

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
  // It has more runs of Han characters and kana than words: it is Chinese or Japanese.
  bool is_han = false;
};

// Only so many bytes of a text tell its language.
inline constexpr std::size_t kHeadBytes = 2000;

// What the first kHeadBytes of a text tell: by the script of most words, else by function words
// and letters that few languages have, each counted once. English needs two such words, and more
// than any other language has; any other needs two more than English. What begins with a digit is
// no word for this.
TextLanguage DetectLanguage(const FoldedText& text);

// The language that most of the texts tell; English if none does.
Language UsualLanguage(std::span<const std::string> texts);

// The languages of a session.
class SessionLanguages {
 public:
  SessionLanguages() = default;
  // `given`: of all texts. None: each tells its own. `usual`: of those that do not tell. None: that
  // of most texts of their kind before them, so that it is the same in whatever order messages and
  // contents are added.
  explicit SessionLanguages(std::optional<Language> given, std::optional<Language> usual = {})
      : given_(given), usual_(usual) {}

  // The language of a text, which is added to the session.
  TextLanguage Add(ItemKind kind, const FoldedText& text);
  // The language of a text, which is not added.
  Language Of(std::string_view text) const;
  // The language of a text that does not tell its own, whatever its kind.
  Language usual() const;

  // Those of the texts added, in their order; English before the first.
  std::vector<Language> used() const;
  bool is_english() const { return (used_ & ~std::uint32_t{1}) == 0; }

 private:
  static_assert(kLanguages <= 32);
  using Counts = std::array<std::uint32_t, kLanguages>;

  std::optional<Language> given_;
  std::optional<Language> usual_;
  std::uint32_t used_ = 0;           // A bit for each.
  std::array<Counts, 2> told_ = {};  // By ItemKind.
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_LANGUAGES_H_
