#include "core/retrieval/terms.h"

#include <libstemmer.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "core/base/utf8_decode.h"

namespace memoryd {
namespace {

// English function words, and what the splitting of contractions leaves of them. Sorted.
constexpr auto kStopWords = std::to_array<std::string_view>(
    {"a",      "about",   "also",  "am",     "an",   "and",    "any",   "are",   "as",    "at",
     "be",     "because", "been",  "being",  "both", "but",    "by",    "can",   "could", "d",
     "did",    "do",      "does",  "doing",  "don",  "during", "each",  "few",   "for",   "from",
     "had",    "has",     "have",  "having", "he",   "her",    "hers",  "him",   "his",   "how",
     "i",      "if",      "in",    "into",   "is",   "it",     "its",   "just",  "ll",    "m",
     "me",     "more",    "most",  "my",     "no",   "nor",    "not",   "now",   "of",    "on",
     "only",   "or",      "other", "our",    "ours", "own",    "re",    "s",     "same",  "she",
     "should", "so",      "some",  "such",   "t",    "than",   "that",  "the",   "their", "theirs",
     "them",   "then",    "there", "these",  "they", "this",   "those", "to",    "too",   "us",
     "ve",     "very",    "was",   "we",     "were", "what",   "when",  "where", "which", "while",
     "who",    "whom",    "whose", "why",    "will", "with",   "would", "you",   "your",  "yours"});
static_assert(std::is_sorted(kStopWords.begin(), kStopWords.end()));

bool IsStopWord(std::string_view word) {
  return std::binary_search(kStopWords.begin(), kStopWords.end(), word);
}

bool IsAscii(char c) { return static_cast<unsigned char>(c) < 0x80; }
bool IsAsciiLetter(char c) { return c >= 'a' && c <= 'z'; }
bool IsAsciiWord(char c) { return IsAsciiLetter(c) || (c >= '0' && c <= '9'); }

// What `text` is with case, accents and compatibility forms taken away.
class Folder {
 public:
  std::string Fold(std::string_view text) {
    std::string folded;
    folded.reserve(text.size());
    const char* p = text.data();
    const char* const end = p + text.size();
    while (p < end) {
      if (IsAscii(*p)) {
        folded.push_back(*p >= 'A' && *p <= 'Z' ? static_cast<char>(*p - 'A' + 'a') : *p);
        ++p;
      } else {
        p = FoldRun(p, end, folded);
      }
    }
    return folded;
  }

 private:
  // Bounds the memory of a run: a character may become 18.
  static constexpr std::size_t kRunLimit = 1024;

  // Folds the run of non-ASCII characters from `p` on and returns its end.
  const char* FoldRun(const char* p, const char* end, std::string& folded) {
    run_.clear();
    while (p < end && !IsAscii(*p) && run_.size() < kRunLimit) {
      const DecodedUtf8 decoded = DecodeUtf8(p, end);
      p += std::max<std::size_t>(decoded.length, 1);
      Decompose(decoded.length == 0 ? U' ' : decoded.code_point);
    }
    // Syllables of Hangul and voiced kana become one character again.
    const utf8proc_ssize_t size =
        utf8proc_normalize_utf32(run_.data(), static_cast<utf8proc_ssize_t>(run_.size()),
                                 static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE));
    for (utf8proc_ssize_t i = 0; i < size; ++i) {
      std::array<utf8proc_uint8_t, 4> bytes;
      const auto length = utf8proc_encode_char(run_[static_cast<std::size_t>(i)], bytes.data());
      folded.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(length));
    }
    return p;
  }

  void Decompose(char32_t code_point) {
    switch (code_point) {
      case 0x2019:  // The typographic apostrophe.
      case 0x02BC:
        run_.push_back('\'');
        return;
      case 0x200B:  // Separates words, though it is "ignorable" as the soft hyphen is.
        run_.push_back(' ');
        return;
      default:
        break;
    }
    constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT |
                                                             UTF8PROC_CASEFOLD | UTF8PROC_IGNORE);
    std::array<utf8proc_int32_t, 32> parts;
    int boundary_class = 0;  // Not asked for, but written.
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point), parts.data(),
                                parts.size(), kOptions, &boundary_class);
    if (count < 0 || static_cast<std::size_t>(count) > parts.size()) {
      run_.push_back(' ');
      return;
    }
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      const utf8proc_int32_t part = parts[static_cast<std::size_t>(i)];
      if (!IsAccent(part)) run_.push_back(part);
    }
  }

  // Accents, points and tone marks have combining classes from 10 on, overlays 1. The vowel signs
  // of Indic scripts have 0; nukta, kana's voicing and virama 7 to 9: they make another letter.
  static bool IsAccent(utf8proc_int32_t code_point) {
    const auto combining_class = utf8proc_get_property(code_point)->combining_class;
    return combining_class == 1 || combining_class >= 10;
  }

  std::vector<utf8proc_int32_t> run_;
};

enum class CharClass : std::uint8_t {
  kSeparator,
  kWord,
  kPaired,
  kPairedMark,  // Belongs to the character before it.
};

struct FoldedChar {
  CharClass kind;
  std::size_t length;
};

// The scripts that become pairs, see terms.h.
bool IsPairedScript(char32_t c) {
  struct Range {
    char32_t first, last;
  };
  static constexpr auto kRanges = std::to_array<Range>({
      {0x0E00, 0x0EFF},    // Thai, Lao
      {0x1000, 0x109F},    // Myanmar
      {0x1100, 0x11FF},    // Hangul letters
      {0x1780, 0x17FF},    // Khmer
      {0x3005, 0x312F},    // Han iteration marks, Hiragana, Katakana, Bopomofo
      {0x3131, 0x318E},    // Hangul letters
      {0x31A0, 0x31FF},    // Bopomofo and Katakana extensions
      {0x3400, 0x4DBF},    // Han
      {0x4E00, 0x9FFF},    // Han
      {0xAC00, 0xD7FF},    // Hangul
      {0xF900, 0xFAFF},    // Han
      {0x1B000, 0x1B16F},  // Kana supplements
      {0x20000, 0x3FFFF},  // Han
  });
  return std::any_of(kRanges.begin(), kRanges.end(),
                     [c](const Range& range) { return c >= range.first && c <= range.last; });
}

CharClass ClassOf(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_NL:
      return IsPairedScript(c) ? CharClass::kPaired : CharClass::kWord;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return IsPairedScript(c) ? CharClass::kPairedMark : CharClass::kWord;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::kWord;
    default:
      return CharClass::kSeparator;
  }
}

// `p` < `end`.
FoldedChar CharAt(const char* p, const char* end) {
  if (IsAscii(*p)) {
    return {IsAsciiWord(*p) ? CharClass::kWord : CharClass::kSeparator, 1};
  }
  const DecodedUtf8 decoded = DecodeUtf8(p, end);
  return {ClassOf(decoded.code_point), std::max<std::size_t>(decoded.length, 1)};
}

std::string_view Cut(std::string_view term) {
  if (term.size() <= kMaxTermBytes) return term;
  std::size_t size = kMaxTermBytes;
  while ((static_cast<unsigned char>(term[size]) & 0xC0) == 0x80) --size;
  return term.substr(0, size);
}

class EnglishStemmer {
 public:
  // Valid until the next call.
  std::string_view Stem(std::string_view word) {
    if (stemmer_ == nullptr) {
      stemmer_.reset(sb_stemmer_new("english", nullptr));
      if (stemmer_ == nullptr) throw std::bad_alloc();
    }
    const sb_symbol* stem =
        sb_stemmer_stem(stemmer_.get(), reinterpret_cast<const sb_symbol*>(word.data()),
                        static_cast<int>(word.size()));
    if (stem == nullptr) throw std::bad_alloc();
    return {reinterpret_cast<const char*>(stem),
            static_cast<std::size_t>(sb_stemmer_length(stemmer_.get()))};
  }

 private:
  struct Delete {
    void operator()(sb_stemmer* stemmer) const { sb_stemmer_delete(stemmer); }
  };
  std::unique_ptr<sb_stemmer, Delete> stemmer_;
};

// Visits the terms of a folded text.
class Splitter {
 public:
  Splitter(std::string_view folded, TermVisitor visit)
      : p_(folded.data()), end_(p_ + folded.size()), visit_(visit) {}

  void Run() {
    while (p_ < end_) {
      const FoldedChar next = CharAt(p_, end_);
      if (next.kind == CharClass::kSeparator) {
        p_ += next.length;
      } else if (next.kind == CharClass::kWord) {
        Word();
      } else {
        Pairs();
      }
    }
  }

 private:
  void Word() {
    const char* const begin = p_;
    bool ascii_only = true;
    while (p_ < end_) {
      const FoldedChar next = CharAt(p_, end_);
      if (next.kind != CharClass::kWord) break;
      ascii_only = ascii_only && IsAscii(*p_);
      p_ += next.length;
    }
    std::string_view word(begin, static_cast<std::size_t>(p_ - begin));
    if (end_ - p_ >= 2 && *p_ == '\'' && IsAsciiLetter(p_[1])) {
      const char* const ending = ++p_;
      while (p_ < end_ && IsAsciiLetter(*p_)) ++p_;
      const std::string_view suffix(ending, static_cast<std::size_t>(p_ - ending));
      if (suffix != "s") {
        joined_.assign(word).append(suffix);
        word = joined_;
      }
    }
    Emit(word, ascii_only);
  }

  void Emit(std::string_view word, bool ascii_only) {
    if (word.size() > kMaxTermBytes) {
      word = Cut(word);
      ascii_only = std::all_of(word.begin(), word.end(), IsAscii);
    }
    if (!ascii_only) {
      visit_(word, TermKind::kWord, word);
    } else if (IsStopWord(word)) {
      stop_word_.assign("'").append(word);
      visit_(stop_word_, TermKind::kStopWord, {});
    } else {
      visit_(stemmer_.Stem(word), TermKind::kWord, word);
    }
  }

  void Pairs() {
    const char* const first = p_;
    const char* before = nullptr;  // The character before the one at `character`.
    const char* character = nullptr;
    while (p_ < end_) {
      const FoldedChar next = CharAt(p_, end_);
      if (next.kind != CharClass::kPaired && next.kind != CharClass::kPairedMark) break;
      if (next.kind == CharClass::kPaired || p_ == first) {
        if (before != nullptr) Pair(before, character);
        before = character;
        character = p_;
      }
      p_ += next.length;
    }
    if (before == nullptr) {
      visit_(Cut(View(character, p_)), TermKind::kWord, {});
      return;
    }
    Pair(before, character);
    visit_(Cut(View(character, p_)), TermKind::kCharacter, {});
  }

  // The pair that begins at `before` and ends where p_ is, and its first character by itself.
  void Pair(const char* before, const char* character) {
    visit_(Cut(View(before, character)), TermKind::kCharacter, {});
    visit_(Cut(View(before, p_)), TermKind::kWord, {});
  }

  static std::string_view View(const char* begin, const char* end) {
    return {begin, static_cast<std::size_t>(end - begin)};
  }

  const char* p_;
  const char* const end_;
  const TermVisitor visit_;
  EnglishStemmer stemmer_;
  std::string joined_;
  std::string stop_word_;
};

}  // namespace

void ForEachTerm(std::string_view text, TermVisitor visit) {
  const std::string folded = Folder().Fold(text);
  Splitter(folded, visit).Run();
}

std::vector<QueryWord> QueryWords(std::string_view text) {
  std::vector<QueryWord> words;
  std::vector<QueryWord> stop_words;
  absl::flat_hash_set<std::string> seen;
  ForEachTerm(text, [&](std::string_view term, TermKind kind, std::string_view word) {
    if (kind == TermKind::kCharacter) return;
    QueryWord copy{std::string(word), std::string(term)};
    if (seen.insert(copy.word.empty() ? copy.term : copy.word).second) {
      (kind == TermKind::kWord ? words : stop_words).push_back(std::move(copy));
    }
  });
  return words.empty() ? stop_words : words;
}

std::vector<std::string> QueryTerms(std::string_view text) {
  std::vector<std::string> terms;
  absl::flat_hash_set<std::string> seen;
  for (QueryWord& word : QueryWords(text)) {
    if (seen.insert(word.term).second) terms.push_back(std::move(word.term));
  }
  return terms;
}

std::string StemOf(std::string_view word) {
  word = Cut(word);
  if (!std::all_of(word.begin(), word.end(), IsAscii)) return std::string(word);
  return std::string(EnglishStemmer().Stem(word));
}

std::string NameWord(std::string_view word) {
  std::string name = Folder().Fold(word);
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
