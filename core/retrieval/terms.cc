#include "core/retrieval/terms.h"

#include <libstemmer.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/utf8_decode.h"
#include "core/model/language.h"
#include "core/retrieval/folding.h"
#include "core/retrieval/languages.h"

namespace memoryd {
namespace {

// Characters of a part.
constexpr std::size_t kPartLength = 4;
// What parts of words count in a query, and pairs of characters: one of which only one character
// belongs to a function word, one of Hiragana, and a Han character by itself.
constexpr double kBeginningWeight = 0.6;
constexpr double kEndWeight = 0.5;
constexpr double kHalfWeight = 0.3;
constexpr double kHiraganaWeight = 0.5;
constexpr double kHanWeight = 0.5;

constexpr std::string_view kDotlessI = "\u0131";

// By Language: Snowball's names.
constexpr auto kStemmers = std::to_array<const char*>(
    {"english", "german",     "french",     "spanish",  "italian",   "portuguese", "dutch",
     "swedish", "danish",     "norwegian",  "finnish",  "hungarian", "turkish",    "russian",
     "greek",   "arabic",     "hindi",      "armenian", "tamil",     "catalan",    "basque",
     "irish",   "indonesian", "lithuanian", "romanian", "nepali",    "yiddish"});
static_assert(kStemmers.size() == kLanguages);

bool Continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

std::string_view Cut(std::string_view term) {
  if (term.size() <= kMaxTermBytes) return term;
  std::size_t size = kMaxTermBytes;
  while (Continues(term[size])) --size;
  return term.substr(0, size);
}

// Empty where the text has fewer characters.
std::string_view FirstCharacters(std::string_view text, std::size_t count) {
  for (std::size_t size = 1; size <= text.size(); ++size) {
    if (size < text.size() && Continues(text[size])) continue;
    if (--count == 0) return text.substr(0, size);
  }
  return {};
}

std::string_view LastCharacters(std::string_view text, std::size_t count) {
  for (std::size_t begin = text.size(); begin > 0; --begin) {
    if (!Continues(text[begin - 1]) && --count == 0) return text.substr(begin - 1);
  }
  return {};
}

std::string FoldFor(std::string_view text, Language language) {
  if (language == Language::kEnglish) return Fold(text);
  return Fold(text, {.accents = true, .turkish = language == Language::kTurkish});
}

// Without accents.
std::string Plain(std::string_view word, Language language) {
  if (IsAscii(word)) return std::string(word);
  std::string plain = Fold(word);
  if (language == Language::kTurkish) {
    for (std::size_t at = 0; (at = plain.find(kDotlessI, at)) != std::string::npos;) {
      plain.replace(at, kDotlessI.size(), "i");
    }
  }
  return plain;
}

class Stemmers {
 public:
  // Valid until the next call.
  std::string_view Stem(std::string_view word, Language language) {
    const auto number = static_cast<std::size_t>(language);
    Stemmer& stemmer = stemmers_[number];
    if (stemmer == nullptr) {
      stemmer.reset(sb_stemmer_new(kStemmers[number], nullptr));
      if (stemmer == nullptr) throw std::bad_alloc();
    }
    const sb_symbol* stem =
        sb_stemmer_stem(stemmer.get(), reinterpret_cast<const sb_symbol*>(word.data()),
                        static_cast<int>(word.size()));
    if (stem == nullptr) throw std::bad_alloc();
    return {reinterpret_cast<const char*>(stem),
            static_cast<std::size_t>(sb_stemmer_length(stemmer.get()))};
  }

  // As StemOf(), but for English `word` must be without accents.
  std::string TermOf(std::string_view word, Language language) {
    if (IsOfScript(word, language)) {
      const std::string term = Plain(Stem(word, language), language);
      if (!term.empty()) return std::string(Cut(term));
    }
    const std::string plain = language == Language::kEnglish ? "" : Plain(word, language);
    const std::string_view cut = Cut(language == Language::kEnglish ? word : plain);
    return std::string(IsAscii(cut) ? Stem(cut, Language::kEnglish) : cut);
  }

 private:
  struct Delete {
    void operator()(sb_stemmer* stemmer) const { sb_stemmer_delete(stemmer); }
  };
  using Stemmer = std::unique_ptr<sb_stemmer, Delete>;

  std::array<Stemmer, kLanguages> stemmers_;
};

// Calls visit(part, weight) for the parts of a word of which `term` is the stem.
template <typename Visitor>
void ForEachPart(std::string_view word, std::string_view term, Language language, Visitor visit) {
  if (!IsOfScript(word, language) || !IsLetter(word)) return;
  const std::string plain = Plain(word, language);
  if (const std::string_view beginning = FirstCharacters(plain, kPartLength); !beginning.empty()) {
    visit(std::string("-").append(beginning), kBeginningWeight);
  }
  if (!IsCompounding(language)) return;
  if (const std::string_view end = LastCharacters(term, kPartLength); !end.empty()) {
    visit(std::string("+").append(end), kEndWeight);
  }
}

// Gives the words of a text to handler.Word(word), and its runs of characters of scripts that
// become pairs to handler.Run(run).
template <typename Handler>
class Splitter {
 public:
  // `joins`: contractions are words.
  Splitter(std::string_view text, bool joins, Handler& handler)
      : p_(text.data()), end_(p_ + text.size()), joins_(joins), handler_(handler) {}

  void Run() {
    while (p_ < end_) {
      const FoldedChar next = CharAt(p_, end_);
      if (next.kind == CharClass::kSeparator) {
        p_ += next.length;
      } else if (next.kind == CharClass::kWord) {
        Word();
      } else {
        Characters();
      }
    }
  }

 private:
  void Word() {
    const char* const begin = p_;
    while (p_ < end_) {
      const FoldedChar next = CharAt(p_, end_);
      if (next.kind != CharClass::kWord) break;
      p_ += next.length;
    }
    std::string_view word(begin, static_cast<std::size_t>(p_ - begin));
    if (joins_ && end_ - p_ >= 2 && *p_ == '\'' && IsAsciiLetter(p_[1])) {
      const char* const ending = ++p_;
      while (p_ < end_ && IsAsciiLetter(*p_)) ++p_;
      const std::string_view suffix(ending, static_cast<std::size_t>(p_ - ending));
      if (suffix != "s") {
        joined_.assign(word).append(suffix);
        word = joined_;
      }
    }
    handler_.Word(word);
  }

  void Characters() {
    const char* const begin = p_;
    while (p_ < end_) {
      const FoldedChar next = CharAt(p_, end_);
      if (next.kind != CharClass::kPaired && next.kind != CharClass::kPairedMark) break;
      p_ += next.length;
    }
    handler_.Run({begin, static_cast<std::size_t>(p_ - begin)});
  }

  const char* p_;
  const char* const end_;
  const bool joins_;
  Handler& handler_;
  std::string joined_;
};

template <typename Handler>
void Split(std::string_view text, Language language, Handler& handler) {
  Splitter<Handler>(text, language == Language::kEnglish, handler).Run();
}

// Calls visit(character) for each of a run, with its marks. A mark that begins it is one, too.
template <typename Visitor>
void ForEachCharacter(std::string_view run, Visitor visit) {
  const char* const end = run.data() + run.size();
  const char* character = run.data();
  for (const char* p = run.data(); p < end;) {
    const FoldedChar next = CharAt(p, end);
    if (next.kind == CharClass::kPaired && p != character) {
      visit(std::string_view(character, static_cast<std::size_t>(p - character)));
      character = p;
    }
    p += next.length;
  }
  visit(std::string_view(character, static_cast<std::size_t>(end - character)));
}

// Visits the terms of a text.
class TextTerms {
 public:
  TextTerms(Language language, TermVisitor visit) : language_(language), visit_(visit) {}

  void Word(std::string_view word) {
    if (language_ == Language::kEnglish) {
      EnglishWord(Cut(word));
      return;
    }
    const std::string plain = Plain(word, language_);
    if (plain.empty()) return;  // Accents alone.
    if (IsFunctionWord(Cut(plain), language_)) {
      StopWord(Cut(plain));
      return;
    }
    const std::string term = stemmers_.TermOf(word, language_);
    visit_(term, TermKind::kWord, word);
    ForEachPart(word, term, language_,
                [this](const std::string& part, double) { visit_(part, TermKind::kPart, {}); });
  }

  void Run(std::string_view run) {
    std::string_view before;
    ForEachCharacter(run, [&](std::string_view character) {
      if (!before.empty()) {
        visit_(Cut(before), TermKind::kCharacter, {});
        visit_(Cut({before.data(), before.size() + character.size()}), TermKind::kWord, {});
      }
      before = character;
    });
    const bool alone = before.size() == run.size();
    visit_(Cut(before), alone ? TermKind::kWord : TermKind::kCharacter, {});
  }

 private:
  void EnglishWord(std::string_view word) {
    if (!IsAscii(word)) {
      visit_(word, TermKind::kWord, word);
    } else if (IsFunctionWord(word, Language::kEnglish)) {
      StopWord(word);
    } else {
      visit_(stemmers_.Stem(word, Language::kEnglish), TermKind::kWord, word);
    }
  }

  void StopWord(std::string_view word) {
    stop_word_.assign("'").append(word);
    visit_(stop_word_, TermKind::kStopWord, {});
  }

  const Language language_;
  const TermVisitor visit_;
  Stemmers stemmers_;
  std::string stop_word_;
};

bool IsHiragana(std::string_view character) {
  return character >= "\u3041" && character < "\u30A0";
}

bool IsHan(std::string_view character) {
  const char32_t c = DecodeUtf8(character.data(), character.data() + character.size()).code_point;
  return (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x4E00 && c <= 0x9FFF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x20000 && c <= 0x3FFFF);
}

// Collects what a query looks for.
class WantedWords {
 public:
  WantedWords(const QueryLanguages& languages, bool by_word)
      : languages_(languages), by_word_(by_word) {}

  void Word(std::string_view word) {
    if (languages_.own == Language::kEnglish) word = Cut(word);
    const std::string plain = Plain(word, languages_.own);
    if (plain.empty()) return;
    if (IsFunctionWord(Cut(plain), languages_.own)) {
      const std::string term = std::string("'").append(Cut(plain));
      if (places_.emplace(term, 0).second) stop_words_.push_back({{}, {{term}}});
      return;
    }
    const bool is_english = languages_.own == Language::kEnglish;
    const std::string english = is_english ? std::string(word) : Fold(word);
    QueryWord wanted{std::string(word), {}};
    std::string key;
    for (const Language language : languages_.texts) {
      std::string term =
          stemmers_.TermOf(language == Language::kEnglish ? english : word, language);
      if (Has(wanted, term)) continue;
      key.append(term).push_back('\n');
      wanted.terms.push_back({std::move(term)});
    }
    if (!places_.emplace(by_word_ ? wanted.word : key, words_.size()).second) return;
    for (const Language language : languages_.texts) {
      if (language == Language::kEnglish) continue;
      ForEachPart(word, stemmers_.TermOf(word, language), language,
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
    const std::string term(Cut(characters));
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
};

std::vector<QueryWord> Wanted(std::string_view text, const QueryLanguages& languages,
                              bool by_word) {
  WantedWords wanted(languages, by_word);
  Split(FoldFor(text, languages.own), languages.own, wanted);
  return wanted.Take();
}

}  // namespace

FoldedText::FoldedText(std::string_view source) : text(source), folded(Fold(source)) {}

void ForEachTerm(const FoldedText& text, Language language, TermVisitor visit) {
  TextTerms terms(language, visit);
  if (language == Language::kEnglish) {
    Split(text.folded, language, terms);
  } else {
    Split(FoldFor(text.text, language), language, terms);
  }
}

std::vector<QueryWord> QueryWords(std::string_view text, const QueryLanguages& languages) {
  return Wanted(text, languages, /*by_word=*/true);
}

std::vector<QueryWord> QueryTerms(std::string_view text, const QueryLanguages& languages) {
  return Wanted(text, languages, /*by_word=*/false);
}

std::string StemOf(std::string_view word, Language language) {
  if (language != Language::kEnglish || IsAscii(word)) return Stemmers().TermOf(word, language);
  return Stemmers().TermOf(Fold(word), language);
}

std::string NameWord(std::string_view word) {
  std::string name = Fold(word);
  const char* const begin = name.data();
  const char* const end = begin + name.size();
  // Behind the last letter or digit, and behind the last one before an "'s" that ends the word.
  const char* last = begin;
  const char* before_ending = begin;
  for (const char* p = begin; p < end;) {
    const FoldedChar next = CharAt(p, end);
    if (*p == '\'') before_ending = p;
    p += next.length;
    if (next.kind != CharClass::kSeparator) last = p;
  }
  if (last - before_ending == 2 && before_ending[1] == 's') last = before_ending;
  name.resize(static_cast<std::size_t>(last - begin));
  return name;
}

bool IsUnspaced(std::string_view word) {
  std::size_t characters = 0;
  for (const char *p = word.data(), *end = p + word.size(); p < end;) {
    const FoldedChar next = CharAt(p, end);
    if (next.kind == CharClass::kPaired) {
      ++characters;
    } else if (next.kind != CharClass::kPairedMark) {
      return false;
    }
    p += next.length;
  }
  return characters >= 2;
}

}  // namespace memoryd
