#ifndef MEMORYD_CORE_TOKENS_CODE_POINT_CLASS_H_
#define MEMORYD_CORE_TOKENS_CODE_POINT_CLASS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/base/utf8_decode.h"

namespace memoryd {

// What the patterns of the tokenizers tell apart, each class a bit so that a set is a mask. The
// classes are those of tiktoken's regex engine: another Unicode version splits text elsewhere.
enum CodePointClass : std::uint8_t {
  kUpper = 1,    // Lu, Lt
  kLower = 2,    // Ll
  kUncased = 4,  // Lm, Lo
  kMark = 8,     // M
  kNumber = 16,  // N
  kSpace = 32,   // \s
  kOther = 64,   // Everything else, and each byte that is not UTF-8.
};
using CodePointClasses = std::uint8_t;  // A union of the above.

inline constexpr CodePointClasses kLetter = kUpper | kLower | kUncased;

// The class of every code point. Immutable, so any thread may read it.
class CodePointTable {
 public:
  // A character of a text: its class and its bytes.
  struct Char {
    CodePointClass kind;
    std::size_t length;
  };

  // The one table, built at first use and never destroyed.
  static const CodePointTable& Get();

  CodePointTable(const CodePointTable&) = delete;
  CodePointTable& operator=(const CodePointTable&) = delete;

  CodePointClass Of(char32_t code_point) const {
    return code_point < direct_.size() ? direct_[code_point] : Search(code_point);
  }

  // The character at `p`; `p` < `end`.
  Char At(const char* p, const char* end) const {
    const auto byte = static_cast<unsigned char>(*p);
    if (byte < 0x80) {
      return {direct_[byte], 1};
    }
    const DecodedUtf8 decoded = DecodeUtf8(p, end);
    return decoded.length == 0 ? Char{kOther, 1} : Char{Of(decoded.code_point), decoded.length};
  }

  // The end of the characters from `p` on that are in `classes`: `p` itself when there is none.
  const char* SkipAll(const char* p, const char* end, CodePointClasses classes) const {
    while (p < end) {
      const Char next = At(p, end);
      if ((next.kind & classes) == 0) {
        break;
      }
      p += next.length;
    }
    return p;
  }

 private:
  CodePointTable();

  CodePointClass Search(char32_t code_point) const;

  // Planes 0 to 3, where all but variation selectors and private use lies.
  std::array<CodePointClass, 0x40000> direct_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_TOKENS_CODE_POINT_CLASS_H_
