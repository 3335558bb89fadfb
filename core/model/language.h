// The languages whose words are found in every inflection.
#ifndef MEMORYD_CORE_MODEL_LANGUAGE_H_
#define MEMORYD_CORE_MODEL_LANGUAGE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace memoryd {

// In the order in which one of equals is taken.
enum class Language : std::uint8_t {
  kEnglish,
  kGerman,
  kFrench,
  kSpanish,
  kItalian,
  kPortuguese,
  kDutch,
  kSwedish,
  kDanish,
  kNorwegian,
  kFinnish,
  kHungarian,
  kTurkish,
  kRussian,
  kGreek,
  kArabic,
  kHindi,
  kArmenian,
  kTamil,
  kCatalan,
  kBasque,
  kIrish,
  kIndonesian,
  kLithuanian,
  kRomanian,
  kNepali,
  kYiddish,
};

// By Language: the codes of ISO 639-1.
inline constexpr auto kLanguageCodes = std::to_array<std::string_view>(
    {"en", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "no", "fi", "hu", "tr", "ru",
     "el", "ar", "hi", "hy", "ta", "ca", "eu", "ga", "id", "lt", "ro", "ne", "yi"});
inline constexpr std::size_t kLanguages = kLanguageCodes.size();
static_assert(static_cast<std::size_t>(Language::kYiddish) + 1 == kLanguages);

// Languages without stems. Other words within their texts are taken for English ones.
inline constexpr auto kUnspacedLanguageCodes =
    std::to_array<std::string_view>({"zh", "ja", "ko", "th"});

// kEnglish for one of kUnspacedLanguageCodes; none for a code that is in neither list.
constexpr std::optional<Language> FindLanguage(std::string_view code) {
  for (std::size_t i = 0; i < kLanguages; ++i) {
    if (kLanguageCodes[i] == code) return static_cast<Language>(i);
  }
  for (const std::string_view unspaced : kUnspacedLanguageCodes) {
    if (unspaced == code) return Language::kEnglish;
  }
  return std::nullopt;
}

}  // namespace memoryd

#endif  // MEMORYD_CORE_MODEL_LANGUAGE_H_
