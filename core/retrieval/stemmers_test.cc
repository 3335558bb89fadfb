#include "core/retrieval/stemmers.h"

#include <gtest/gtest.h>
#include <libstemmer.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/model/language.h"
#include "core/retrieval/folding.h"
#include "core/retrieval/query_terms.h"
#include "core/retrieval/terms.h"

namespace {

// What Snowball has been given to do.
struct Work {
  std::size_t words = 0;
  std::size_t longest = 0;  // In bytes.
};
Work work;

}  // namespace

// The linker puts the second in place of the first: CMakeLists.txt.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
const sb_symbol* __real_sb_stemmer_stem(sb_stemmer* stemmer, const sb_symbol* word, int size);
const sb_symbol* __wrap_sb_stemmer_stem(sb_stemmer* stemmer, const sb_symbol* word, int size) {
  ++work.words;
  work.longest = std::max(work.longest, static_cast<std::size_t>(size));
  return __real_sb_stemmer_stem(stemmer, word, size);
}
}
// NOLINTEND(bugprone-reserved-identifier)

namespace memoryd {
namespace {

std::vector<Language> AllLanguages() {
  std::vector<Language> all;
  for (std::size_t i = 0; i < kLanguages; ++i) all.push_back(static_cast<Language>(i));
  return all;
}

class StemmersTest : public ::testing::Test {
 protected:
  StemmersTest() { work = {}; }

  static std::string LongWord(std::string_view letter) {
    std::string word;
    while (word.size() < std::size_t{1} << 17) word.append(letter);
    return word;
  }

  // Some stemmers of each kind of letters.
  static inline const std::vector<std::pair<Language, std::string_view>> kLetters = {
      {Language::kEnglish, "ab"},        {Language::kEnglish, "\u00FC"},
      {Language::kGerman, "\u00FC"},     {Language::kDutch, "\u00E9"},
      {Language::kTurkish, "\u0131l"},   {Language::kRussian, "\u0436\u0430"},
      {Language::kArabic, "\u0628"},     {Language::kHindi, "\u0915\u093F"},
      {Language::kTamil, "\u0BA4\u0BC1"}};
};

TEST_F(StemmersTest, EachLanguageHasOne) {
  Stemmers stemmers;
  for (const Language language : AllLanguages()) {
    EXPECT_NO_THROW(stemmers.Stem("a", language))
        << kLanguageCodes[static_cast<std::size_t>(language)];
  }
}

TEST_F(StemmersTest, OfALongWordOfATextTheBeginningIsStemmed) {
  for (const auto& [language, letter] : kLetters) {
    SCOPED_TRACE(kLanguageCodes[static_cast<std::size_t>(language)]);
    work = {};
    const std::string text = LongWord(letter);
    std::size_t words = 0;
    ForEachTerm(FoldedText(text), language,
                [&](std::string_view term, TermKind kind, std::string_view word) {
                  EXPECT_LE(term.size(), kMaxTermBytes);
                  EXPECT_LE(word.size(), kMaxWordBytes);
                  if (kind == TermKind::kWord) ++words;
                });
    EXPECT_EQ(words, 1U);
    EXPECT_LE(work.words, 2U);
    EXPECT_LE(work.longest, kMaxWordBytes);
  }
}

TEST_F(StemmersTest, OfALongWordOfAQueryTheBeginningIsStemmed) {
  for (const auto& [language, letter] : kLetters) {
    SCOPED_TRACE(kLanguageCodes[static_cast<std::size_t>(language)]);
    work = {};
    const std::vector<QueryWord> words = QueryTerms(LongWord(letter), {language, AllLanguages()});
    ASSERT_EQ(words.size(), 1U);
    EXPECT_LE(words[0].word.size(), kMaxWordBytes);
    EXPECT_LE(work.words, 2 * kLanguages);
    EXPECT_LE(work.longest, kMaxWordBytes);
    work = {};
    Stemmers().StemOf(LongWord(letter), language);
    EXPECT_LE(work.longest, kMaxWordBytes);
  }
}

TEST_F(StemmersTest, ALongWordIsFoundByItsBeginning) {
  for (const auto& [language, letter] : kLetters) {
    SCOPED_TRACE(kLanguageCodes[static_cast<std::size_t>(language)]);
    const std::string text = LongWord(letter);
    std::vector<std::string> terms;
    ForEachTerm(FoldedText(text), language, [&](std::string_view term, TermKind kind, auto) {
      if (kind == TermKind::kWord) terms.emplace_back(term);
    });
    const std::vector<QueryWord> words = QueryTerms(text, {language, {language}});
    ASSERT_EQ(words.size(), 1U);
    EXPECT_EQ(words[0].terms[0].term, terms.front());
  }
}

// A query in a session of every language.
TEST_F(StemmersTest, EachWordOfAQueryIsStemmedOnceForEachLanguage) {
  constexpr std::size_t kWords = 2000;
  std::string query;
  for (std::size_t i = 0; i < kWords; ++i) {
    query += "w" + std::string(1 + i % 26, static_cast<char>('a' + i / 26 % 26)) +
             std::string(1, static_cast<char>('a' + i / 676)) + "ungen ";
  }
  for (const Language own : {Language::kEnglish, Language::kGerman, Language::kTurkish}) {
    work = {};
    QueryTerms(query + query, {own, AllLanguages()});
    EXPECT_LE(work.words, kWords * kLanguages);
    EXPECT_GE(work.words, kWords);
  }
}

}  // namespace
}  // namespace memoryd
