#include "core/retrieval/folding.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/utf8_decode.h"

namespace memoryd {
namespace {

// What `text` is with case, accents and compatibility forms taken away.
class Folder {
 public:
  explicit Folder(FoldOptions options) : options_(options) {}

  std::string Fold(std::string_view text) {
    std::string folded;
    folded.reserve(text.size());
    const char* p = text.data();
    const char* const end = p + text.size();
    while (p < end) {
      if (IsAscii(*p)) {
        if (options_.turkish && *p == 'I') {
          folded.append(kDotlessI);
        } else {
          folded.push_back(*p >= 'A' && *p <= 'Z' ? static_cast<char>(*p - 'A' + 'a') : *p);
        }
        ++p;
      } else {
        run_.clear();
        // An accent may be a character of its own.
        if (options_.accents && !folded.empty() && IsAsciiLetter(folded.back())) {
          run_.push_back(folded.back());
          folded.pop_back();
        }
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
      case 0x0130:  // The capital I with a dot.
        if (options_.turkish) {
          run_.push_back('i');
          return;
        }
        break;
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
      utf8proc_int32_t part = parts[static_cast<std::size_t>(i)];
      if (part == 0x02BC) part = '\'';  // Of the Afrikaans n with an apostrophe.
      if (options_.accents || !IsAccent(part)) run_.push_back(part);
    }
  }

  // Accents, points and tone marks have combining classes from 10 on, overlays 1. The vowel signs
  // of Indic scripts have 0; nukta, kana's voicing and virama 7 to 9: they make another letter.
  static bool IsAccent(utf8proc_int32_t code_point) {
    const auto combining_class = utf8proc_get_property(code_point)->combining_class;
    return combining_class == 1 || combining_class >= 10;
  }

  static constexpr std::string_view kDotlessI = "\u0131";

  const FoldOptions options_;
  std::vector<utf8proc_int32_t> run_;
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

bool IsLetterCategory(utf8proc_category_t category) {
  switch (category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return false;
  }
}

CharClass ClassOf(char32_t c) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  if (IsLetterCategory(category)) return IsPairedScript(c) ? CharClass::kPaired : CharClass::kWord;
  switch (category) {
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

}  // namespace

std::string Fold(std::string_view text, FoldOptions options) { return Folder(options).Fold(text); }

std::string_view BeginningOf(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return IsAscii(c); });
}

bool IsLetter(std::string_view text) {
  if (text.empty() || IsAscii(text.front())) return !text.empty() && IsAsciiLetter(text.front());
  const char32_t c = DecodeUtf8(text.data(), text.data() + text.size()).code_point;
  return IsLetterCategory(utf8proc_category(static_cast<utf8proc_int32_t>(c)));
}

bool IsHan(std::string_view text) {
  const char32_t c = DecodeUtf8(text.data(), text.data() + text.size()).code_point;
  return (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x4E00 && c <= 0x9FFF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x20000 && c <= 0x3FFFF);
}

bool IsKana(std::string_view text) { return text >= "\u3041" && text < "\u3100"; }

FoldedChar CharBeyondAscii(const char* p, const char* end) {
  const DecodedUtf8 decoded = DecodeUtf8(p, end);
  return {ClassOf(decoded.code_point), std::max<std::size_t>(decoded.length, 1)};
}

}  // namespace memoryd
