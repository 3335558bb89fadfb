#include "core/retrieval/query_terms.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/model/language.h"
#include "core/retrieval/folding.h"
#include "core/retrieval/languages.h"
#include "core/retrieval/stemmers.h"
#include "core/retrieval/word_splitter.h"

namespace memoryd {
namespace {

// What pairs of characters count of which only one belongs to a function word, what one of
// Hiragana, and what a Han character by itself.
constexpr double kHalfWeight = 0.3;
constexpr double kHiraganaWeight = 0.5;
constexpr double kHanWeight = 0.5;

bool IsHiragana(std::string_view character) {
  return character >= "\u3041" && character < "\u30A0";
}

// Collects what a query looks for.
class WantedWords {
 public:
  WantedWords(const QueryLanguages& languages, bool by_word)
      : languages_(languages), by_word_(by_word) {}

  void Word(std::string_view word) {
    const bool is_english = languages_.own == Language::kEnglish;
    word = is_english ? CutTerm(word) : CutWord(word);
    // Stems of many languages take longer than a look.
    if (languages_.texts.size() > 1 && !seen_.emplace(word).second) return;
    const std::string plain = Plain(word, languages_.own);
    if (plain.empty()) return;
    if (IsFunctionWord(CutTerm(plain), languages_.own)) {
      const std::string term = std::string("'").append(CutTerm(plain));
      if (places_.emplace(term, 0).second) stop_words_.push_back({{}, {{term}}});
      return;
    }
    // The word as texts of other languages than Turkish have it, and as English ones do.
    const std::string dotted =
        languages_.own == Language::kTurkish ? WithDots(word) : std::string(word);
    const std::string english = is_english ? dotted : Fold(dotted);
    const auto spelled = [&](Language language) -> std::string_view {
      if (language == Language::kEnglish) return english;
      return language == Language::kTurkish ? word : dotted;
    };
    QueryWord wanted{std::string(word), {}};
    std::string key;
    std::vector<std::string> stems;  // By the place of the language.
    for (const Language language : languages_.texts) {
      stems.push_back(stemmers_.TermOf(spelled(language), language));
      if (Has(wanted, stems.back())) continue;
      key.append(stems.back()).push_back('\n');
      wanted.terms.push_back({stems.back()});
    }
    if (!places_.emplace(by_word_ ? wanted.word : key, words_.size()).second) return;
    for (std::size_t i = 0; i < stems.size(); ++i) {
      const Language language = languages_.texts[i];
      const std::string_view form = spelled(language);
      if (!IsOfScript(form, language)) continue;
      ForEachPart({form, Plain(form, language), stems[i]}, language,
                  [&wanted](std::string part, double weight) {
                    if (!Has(wanted, part)) wanted.terms.push_back({std::move(part), weight});
                  });
    }
    words_.push_back(std::move(wanted));
  }

  void Run(std::string_view run) {
    std::vector<std::string_view> characters;
    ForEachCharacter(
        run, [&characters](std::string_view character) { characters.push_back(character); });
    const std::vector<bool> is_function = InFunctionWords(characters);
    if (characters.size() == 1) {
      Want(run, is_function.front() ? 0 : 1);
      return;
    }
    for (std::size_t i = 0; i + 1 < characters.size(); ++i) {
      double weight = 1;
      if (is_function[i] != is_function[i + 1]) weight = kHalfWeight;
      if (is_function[i] && is_function[i + 1]) weight = 0;
      if (IsHiragana(characters[i]) && IsHiragana(characters[i + 1])) weight *= kHiraganaWeight;
      Want({characters[i].data(), characters[i].size() + characters[i + 1].size()}, weight);
    }
    for (std::size_t i = 0; i < characters.size(); ++i) {
      if (!is_function[i] && IsHan(characters[i])) Want(characters[i], kHanWeight);
    }
  }

  // Once.
  std::vector<QueryWord> Take() {
    const auto counts = [](const QueryWord& word) { return word.terms.front().weight > 0; };
    if (words_.empty()) return std::move(stop_words_);
    if (std::none_of(words_.begin(), words_.end(), counts)) {
      for (QueryWord& word : words_) word.terms.front().weight = 1;
    }
    std::erase_if(words_, [&counts](const QueryWord& word) { return !counts(word); });
    return std::move(words_);
  }

 private:
  static bool Has(const QueryWord& word, std::string_view wanted) {
    return std::any_of(word.terms.begin(), word.terms.end(),
                       [wanted](const QueryTerm& term) { return term.term == wanted; });
  }

  void Want(std::string_view characters, double weight) {
    const std::string term(CutTerm(characters));
    const auto [place, is_new] = places_.emplace(term, words_.size());
    if (is_new) {
      words_.push_back({{}, {{term, weight}}});
    } else {
      double& known = words_[place->second].terms.front().weight;
      known = std::max(known, weight);
    }
  }

  const QueryLanguages& languages_;
  const bool by_word_;
  Stemmers stemmers_;
  std::vector<QueryWord> words_;
  std::vector<QueryWord> stop_words_;
  absl::flat_hash_map<std::string, std::size_t> places_;
  absl::flat_hash_set<std::string> seen_;
};

std::vector<QueryWord> Wanted(std::string_view text, const QueryLanguages& languages,
                              bool by_word) {
  WantedWords wanted(languages, by_word);
  SplitWords(FoldFor(text, languages.own), languages.own, wanted);
  return wanted.Take();
}

}  // namespace

std::vector<QueryWord> QueryWords(std::string_view text, const QueryLanguages& languages) {
  return Wanted(text, languages, /*by_word=*/true);
}

std::vector<QueryWord> QueryTerms(std::string_view text, const QueryLanguages& languages) {
  return Wanted(text, languages, /*by_word=*/false);
}

bool HasQueryWords(std::string_view text) {
  const std::string folded = Fold(text);
  const char* const end = folded.data() + folded.size();
  for (const char* p = folded.data(); p < end;) {
    const FoldedChar next = CharAt(p, end);
    if (next.kind != CharClass::kSeparator) return true;
    p += next.length;
  }
  return false;
}

}  // namespace memoryd
