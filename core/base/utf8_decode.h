#ifndef MEMORYD_CORE_BASE_UTF8_DECODE_H_
#define MEMORYD_CORE_BASE_UTF8_DECODE_H_

#include <cstddef>
#include <string_view>

namespace memoryd {

// One decoded character. `length` is its bytes, 1 to 4, or 0 where the bytes are not UTF-8.
struct DecodedUtf8 {
  char32_t code_point = 0;
  std::size_t length = 0;
};

// Decodes the character that starts at `p`; `p` < `end`. Strict as RFC 3629 asks: overlong forms,
// surrogates, code points above U+10FFFF and characters cut off by `end` are not UTF-8.
inline DecodedUtf8 DecodeUtf8(const char* p, const char* end) {
  const auto byte = [p](std::size_t i) { return static_cast<unsigned char>(p[i]); };
  const auto left = static_cast<std::size_t>(end - p);
  const auto continues = [&](std::size_t i) { return i < left && (byte(i) & 0xC0) == 0x80; };
  const char32_t first = byte(0);
  if (first < 0x80) {
    return {first, 1};
  }
  if (first >= 0xC2 && first <= 0xDF && continues(1)) {
    return {((first & 0x1F) << 6) | (byte(1) & 0x3Fu), 2};
  }
  if ((first & 0xF0) == 0xE0 && continues(1) && continues(2)) {
    const char32_t code_point =
        ((first & 0x0F) << 12) | ((byte(1) & 0x3Fu) << 6) | (byte(2) & 0x3Fu);
    if (code_point >= 0x800 && (code_point < 0xD800 || code_point > 0xDFFF)) {
      return {code_point, 3};
    }
  }
  if (first >= 0xF0 && first <= 0xF4 && continues(1) && continues(2) && continues(3)) {
    const char32_t code_point = ((first & 0x07) << 18) | ((byte(1) & 0x3Fu) << 12) |
                                ((byte(2) & 0x3Fu) << 6) | (byte(3) & 0x3Fu);
    if (code_point >= 0x10000 && code_point <= 0x10FFFF) {
      return {code_point, 4};
    }
  }
  return {};
}

// How many bytes stand in front of the first that is not UTF-8; all where there is none.
inline std::size_t Utf8Bytes(std::string_view text) {
  const char* const end = text.data() + text.size();
  const char* p = text.data();
  while (p < end) {
    const std::size_t length = DecodeUtf8(p, end).length;
    if (length == 0) break;
    p += length;
  }
  return static_cast<std::size_t>(p - text.data());
}

inline bool IsUtf8(std::string_view text) { return Utf8Bytes(text) == text.size(); }

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_UTF8_DECODE_H_
