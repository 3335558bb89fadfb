#include "core/retrieval/languages.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/base/utf8_decode.h"
#include "core/model/language.h"
#include "core/retrieval/folding.h"
#include "core/retrieval/search.h"

namespace memoryd {
namespace {

using Mask = std::uint32_t;

constexpr Mask MaskOf(Language language) { return Mask{1} << static_cast<unsigned>(language); }

struct WordList {
  std::string_view language;
  std::string_view words;
};

constexpr auto kWordLists = std::to_array<WordList>({
#include "core/retrieval/function_words.inc"
});

template <typename Visitor>
void ForEachWord(std::string_view words, Visitor visit) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    visit(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
}

struct FunctionWord {
  Mask languages;
  std::size_t number;  // Of all, from 0.
};

struct FunctionWords {
  absl::flat_hash_map<std::string_view, FunctionWord> of_languages;
  // Of Chinese, Japanese and Thai.
  absl::flat_hash_set<std::string_view> unspaced;
  std::size_t longest_unspaced = 0;  // In bytes.
};

const FunctionWords& AllFunctionWords() {
  static const FunctionWords* const all = [] {
    auto* words = new FunctionWords;
    for (const WordList& list : kWordLists) {
      const bool is_unspaced =
          std::find(kUnspacedLanguageCodes.begin(), kUnspacedLanguageCodes.end(), list.language) !=
          kUnspacedLanguageCodes.end();
      ForEachWord(list.words, [&](std::string_view word) {
        if (is_unspaced) {
          words->unspaced.insert(word);
          words->longest_unspaced = std::max(words->longest_unspaced, word.size());
        } else {
          const FunctionWord next{0, words->of_languages.size()};
          FunctionWord& known = words->of_languages.try_emplace(word, next).first->second;
          known.languages |= MaskOf(*FindLanguage(list.language));
        }
      });
    }
    return words;
  }();
  return *all;
}

enum class Script : std::uint8_t {
  kOther,  // Latin, and all that no stemmer is for.
  kCyrillic,
  kGreek,
  kArabic,
  kDevanagari,
  kArmenian,
  kTamil,
  kHebrew,
};
constexpr std::size_t kScripts = 8;

Script ScriptOf(std::string_view word) {
  if (word.empty() || IsAscii(word.front())) return Script::kOther;
  const char32_t c = DecodeUtf8(word.data(), word.data() + word.size()).code_point;
  if (c >= 0x370 && c <= 0x3FF) return Script::kGreek;
  if (c >= 0x400 && c <= 0x52F) return Script::kCyrillic;
  if (c >= 0x530 && c <= 0x58F) return Script::kArmenian;
  if (c >= 0x590 && c <= 0x5FF) return Script::kHebrew;
  if (c >= 0x600 && c <= 0x6FF) return Script::kArabic;
  if (c >= 0x900 && c <= 0x97F) return Script::kDevanagari;
  if (c >= 0xB80 && c <= 0xBFF) return Script::kTamil;
  return Script::kOther;
}

Script ScriptOf(Language language) {
  switch (language) {
    case Language::kRussian:
      return Script::kCyrillic;
    case Language::kGreek:
      return Script::kGreek;
    case Language::kArabic:
      return Script::kArabic;
    case Language::kHindi:
    case Language::kNepali:
      return Script::kDevanagari;
    case Language::kArmenian:
      return Script::kArmenian;
    case Language::kTamil:
      return Script::kTamil;
    case Language::kYiddish:
      return Script::kHebrew;
    default:
      return Script::kOther;
  }
}

// By Script.
constexpr auto kLanguageOfScript = std::to_array<std::optional<Language>>(
    {std::nullopt, Language::kRussian, Language::kGreek, Language::kArabic, Language::kHindi,
     Language::kArmenian, Language::kTamil, std::nullopt});
static_assert(kLanguageOfScript.size() == kScripts);

// The languages that are told by a letter.
Mask LanguagesOfLetter(char32_t c) {
  constexpr Mask kScandinavian = MaskOf(Language::kDanish) | MaskOf(Language::kNorwegian);
  switch (c) {
    case U'\u00DF':  // ß
    case U'\u1E9E':
      return MaskOf(Language::kGerman);
    case U'\u00F1':  // ñ
    case U'\u00D1':
      return MaskOf(Language::kSpanish);
    case U'\u00E3':  // ã
    case U'\u00C3':
    case U'\u00F5':  // õ
    case U'\u00D5':
      return MaskOf(Language::kPortuguese);
    case U'\u0153':  // œ
    case U'\u0152':
      return MaskOf(Language::kFrench);
    case U'\u011F':  // ğ
    case U'\u011E':
    case U'\u015F':  // ş
    case U'\u015E':
    case U'\u0131':  // ı
      return MaskOf(Language::kTurkish);
    case U'\u00E5':  // å
    case U'\u00C5':
      return kScandinavian | MaskOf(Language::kSwedish);
    case U'\u00F8':  // ø
    case U'\u00D8':
    case U'\u00E6':  // æ
    case U'\u00C6':
      return kScandinavian;
    case U'\u0151':  // ő
    case U'\u0150':
    case U'\u0171':  // ű
    case U'\u0170':
      return MaskOf(Language::kHungarian);
    default:
      return 0;
  }
}

// What a text has of each language.
class Evidence {
 public:
  void CountWords(std::string_view folded) {
    const FunctionWords& known = AllFunctionWords();
    // By number: the words of a form or of code stand there again and again.
    std::vector<bool> counted(known.of_languages.size());
    const char* const end = folded.data() + folded.size();
    for (const char* p = folded.data(); p < end;) {
      const char* const first = p;
      const FoldedChar character = CharAt(p, end);
      p += character.length;
      if (character.kind == CharClass::kSeparator) continue;
      const bool is_word = character.kind == CharClass::kWord;
      while (p < end) {
        const FoldedChar next = CharAt(p, end);
        if (next.kind == CharClass::kSeparator || (next.kind == CharClass::kWord) != is_word) break;
        p += next.length;
      }
      const std::string_view run(first, static_cast<std::size_t>(p - first));
      if (!is_word) {
        if (IsHan(run) || IsKana(run)) ++han_runs_;
        continue;
      }
      if (!IsLetter(run)) continue;
      ++scripts_[static_cast<std::size_t>(ScriptOf(run))];
      const auto found = known.of_languages.find(run);
      if (found == known.of_languages.end() || counted[found->second.number]) continue;
      counted[found->second.number] = true;
      Count(found->second.languages);
    }
  }

  void CountLetters(std::string_view text) {
    Mask told = 0;
    const char* const end = text.data() + text.size();
    for (const char* p = text.data(); p < end;) {
      if (IsAscii(*p)) {
        ++p;
        continue;
      }
      const DecodedUtf8 decoded = DecodeUtf8(p, end);
      told |= LanguagesOfLetter(decoded.code_point);
      p += std::max<std::size_t>(decoded.length, 1);
    }
    Count(told);
  }

  bool is_han() const {
    return han_runs_ > std::accumulate(scripts_.begin(), scripts_.end(), std::uint32_t{0});
  }

  // The language of the script that most words have; none where that is the Latin one.
  std::optional<Language> OfScript() const {
    const auto most = std::max_element(scripts_.begin() + 1, scripts_.end());
    if (*most <= scripts_[0]) return std::nullopt;
    return kLanguageOfScript[static_cast<std::size_t>(most - scripts_.begin())];
  }

  std::optional<Language> OfWords() const {
    const auto best = std::max_element(counts_.begin(), counts_.end());
    const std::uint32_t least = best == counts_.begin() ? 2 : counts_.front() + 2;
    if (*best < least || std::count(counts_.begin(), counts_.end(), *best) > 1) {
      return std::nullopt;
    }
    return static_cast<Language>(best - counts_.begin());
  }

 private:
  void Count(Mask languages) {
    for (; languages != 0; languages &= languages - 1) {
      const auto language = static_cast<Language>(std::countr_zero(languages));
      if (ScriptOf(language) == Script::kOther) ++counts_[static_cast<std::size_t>(language)];
    }
  }

  std::array<std::uint32_t, kLanguages> counts_ = {};
  std::array<std::uint32_t, kScripts> scripts_ = {};
  std::uint32_t han_runs_ = 0;
};

FoldedText Head(std::string_view text) { return FoldedText(BeginningOf(text, kHeadBytes)); }

// The first of equals.
template <typename Counts>
Language MostOf(const Counts& counts) {
  return static_cast<Language>(std::max_element(counts.begin(), counts.end()) - counts.begin());
}

// In the genitive where dates have it.
struct MonthNames {
  Language language;
  std::array<std::string_view, 12> names;
};
constexpr auto kMonths = std::to_array<MonthNames>({
    {Language::kGerman,
     {"Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober",
      "November", "Dezember"}},
    {Language::kFrench,
     {"janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre",
      "octobre", "novembre", "décembre"}},
    {Language::kSpanish,
     {"enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre",
      "octubre", "noviembre", "diciembre"}},
    {Language::kItalian,
     {"gennaio", "febbraio", "marzo", "aprile", "maggio", "giugno", "luglio", "agosto", "settembre",
      "ottobre", "novembre", "dicembre"}},
    {Language::kPortuguese,
     {"janeiro", "fevereiro", "março", "abril", "maio", "junho", "julho", "agosto", "setembro",
      "outubro", "novembro", "dezembro"}},
    {Language::kDutch,
     {"januari", "februari", "maart", "april", "mei", "juni", "juli", "augustus", "september",
      "oktober", "november", "december"}},
    {Language::kTurkish,
     {"ocak", "şubat", "mart", "nisan", "mayıs", "haziran", "temmuz", "ağustos", "eylül", "ekim",
      "kasım", "aralık"}},
    {Language::kRussian,
     {"января", "февраля", "марта", "апреля", "мая", "июня", "июля", "августа", "сентября",
      "октября", "ноября", "декабря"}},
});

}  // namespace

bool IsFunctionWord(std::string_view word, Language language) {
  const FunctionWords& known = AllFunctionWords();
  const auto found = known.of_languages.find(word);
  return found != known.of_languages.end() && (found->second.languages & MaskOf(language)) != 0;
}

std::vector<bool> InFunctionWords(const std::vector<std::string_view>& characters) {
  const FunctionWords& known = AllFunctionWords();
  std::vector<bool> found(characters.size());
  for (std::size_t i = 0; i < characters.size();) {
    const char* const begin = characters[i].data();
    std::size_t after = i;  // The longest one from here.
    for (std::size_t j = i; j < characters.size(); ++j) {
      const char* const end = characters[j].data() + characters[j].size();
      const std::string_view word(begin, static_cast<std::size_t>(end - begin));
      if (word.size() > known.longest_unspaced) break;
      if (known.unspaced.contains(word)) after = j + 1;
    }
    std::fill(found.begin() + static_cast<std::ptrdiff_t>(i),
              found.begin() + static_cast<std::ptrdiff_t>(after), true);
    i = std::max(after, i + 1);
  }
  return found;
}

bool IsOfScript(std::string_view word, Language language) {
  return language != Language::kEnglish && ScriptOf(word) == ScriptOf(language);
}

bool IsCompounding(Language language) {
  switch (language) {
    case Language::kGerman:
    case Language::kDutch:
    case Language::kSwedish:
    case Language::kDanish:
    case Language::kNorwegian:
    case Language::kFinnish:
    case Language::kHungarian:
      return true;
    default:
      return false;
  }
}

std::string_view MonthName(int month, Language language) {
  const auto found =
      std::find_if(kMonths.begin(), kMonths.end(),
                   [language](const MonthNames& names) { return names.language == language; });
  return found == kMonths.end() ? "" : found->names[static_cast<std::size_t>(month - 1)];
}

TextLanguage DetectLanguage(const FoldedText& text) {
  if (text.text.size() > kHeadBytes) return DetectLanguage(Head(text.text));
  Evidence evidence;
  evidence.CountWords(text.folded);
  TextLanguage told{evidence.OfScript(), evidence.is_han()};
  if (!told.language.has_value()) {
    evidence.CountLetters(text.text);
    told.language = evidence.OfWords();
  }
  return told;
}

Language UsualLanguage(std::span<const std::string> texts) {
  SessionLanguages languages;
  for (const std::string& text : texts) languages.Add(ItemKind::kContent, Head(text));
  return languages.usual();
}

TextLanguage SessionLanguages::Add(ItemKind kind, const FoldedText& text) {
  TextLanguage told = DetectLanguage(text);
  if (given_.has_value()) told.language = given_;
  Counts& counts = told_[static_cast<std::size_t>(kind)];
  if (told.language.has_value()) {
    ++counts[static_cast<std::size_t>(*told.language)];
  } else {
    told.language = usual_.value_or(MostOf(counts));
  }
  used_ |= MaskOf(*told.language);
  return told;
}

Language SessionLanguages::Of(std::string_view text) const {
  if (is_english()) return Language::kEnglish;
  if (given_.has_value()) return *given_;
  return DetectLanguage(Head(text)).language.value_or(usual());
}

Language SessionLanguages::usual() const {
  if (given_.has_value()) return *given_;
  if (usual_.has_value()) return *usual_;
  Counts counts = told_.front();
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += told_.back()[i];
  return MostOf(counts);
}

std::vector<Language> SessionLanguages::used() const {
  if (used_ == 0) return {Language::kEnglish};
  std::vector<Language> languages;
  for (Mask left = used_; left != 0; left &= left - 1) {
    languages.push_back(static_cast<Language>(std::countr_zero(left)));
  }
  return languages;
}

}  // namespace memoryd
