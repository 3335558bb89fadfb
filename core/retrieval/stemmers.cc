#include "core/retrieval/stemmers.h"

#include <libstemmer.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <new>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "core/model/language.h"
#include "core/retrieval/folding.h"
#include "core/retrieval/languages.h"

namespace memoryd {
namespace {

// Characters of a part.
constexpr std::size_t kPartLength = 4;
constexpr double kBeginningWeight = 0.6;
constexpr double kEndWeight = 0.5;

// Ids, numbers and codes are not inflected: those that begin alike are others.
bool HasDigit(std::string_view word) {
  return std::ranges::any_of(word, [](char c) { return c >= '0' && c <= '9'; });
}

constexpr std::string_view kDotlessI = "\u0131";

// By Language: Snowball's names.
constexpr auto kStemmers = std::to_array<const char*>(
    {"english", "german",     "french",     "spanish",  "italian",   "portuguese", "dutch",
     "swedish", "danish",     "norwegian",  "finnish",  "hungarian", "turkish",    "russian",
     "greek",   "arabic",     "hindi",      "armenian", "tamil",     "catalan",    "basque",
     "irish",   "indonesian", "lithuanian", "romanian", "nepali",    "yiddish"});
static_assert(kStemmers.size() == kLanguages);

bool Continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

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

}  // namespace

std::string WithDots(std::string_view word) {
  std::string dotted;
  while (!word.empty()) {
    const std::size_t end = std::min(word.find(kDotlessI), word.size());
    dotted.append(word.substr(0, end));
    word.remove_prefix(end);
    if (word.empty()) break;
    dotted.push_back('i');
    word.remove_prefix(kDotlessI.size());
  }
  return dotted;
}

std::string Plain(std::string_view word, Language language) {
  if (IsAscii(word)) return std::string(word);
  return language == Language::kTurkish ? WithDots(Fold(word)) : Fold(word);
}

void Stemmers::Delete::operator()(sb_stemmer* stemmer) const { sb_stemmer_delete(stemmer); }

std::string_view Stemmers::Stem(std::string_view word, Language language) {
  assert(word.size() <= kMaxWordBytes);
  const auto number = static_cast<std::size_t>(language);
  auto& stemmer = stemmers_[number];
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

std::string Stemmers::TermOf(std::string_view word, Language language) {
  if (IsOfScript(word, language)) {
    const std::string term = Plain(Stem(word, language), language);
    if (!term.empty()) return std::string(CutTerm(term));
  }
  const std::string plain = language == Language::kEnglish ? "" : Plain(word, language);
  const std::string_view cut = CutTerm(language == Language::kEnglish ? word : plain);
  return std::string(IsAscii(cut) ? Stem(cut, Language::kEnglish) : cut);
}

std::string Stemmers::StemOf(std::string_view word, Language language) {
  word = CutWord(word);
  if (language != Language::kEnglish || IsAscii(word)) return TermOf(word, language);
  return TermOf(Fold(word), language);
}

void ForEachPart(const WordForms& forms, Language language,
                 absl::FunctionRef<void(std::string part, double weight)> visit) {
  if (!IsOfScript(forms.word, language) || !IsLetter(forms.word) || HasDigit(forms.word)) return;
  const std::string_view beginning = FirstCharacters(forms.plain, kPartLength);
  if (!beginning.empty()) {
    visit(std::string("-").append(beginning), kBeginningWeight);
  }
  if (!IsCompounding(language)) return;
  if (const std::string_view end = LastCharacters(forms.term, kPartLength); !end.empty()) {
    visit(std::string("+").append(end), kEndWeight);
  }
}

}  // namespace memoryd
