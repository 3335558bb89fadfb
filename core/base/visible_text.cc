#include "core/base/visible_text.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <string_view>

#include "core/base/unicode_tables.h"
#include "core/base/utf8_decode.h"

namespace memoryd {
namespace {

bool IsIn(std::span<const CodeRange> ranges, char32_t c) {
  const auto next =
      std::upper_bound(ranges.begin(), ranges.end(), c,
                       [](char32_t code, CodeRange range) { return code < range.first; });
  return next != ranges.begin() && c <= std::prev(next)->last;
}

// The bytes of the longest sequence of kEmojiSequences that `text` begins with; 0 for none.
std::size_t EmojiLength(std::string_view text) {
  std::size_t longest = 0;
  const auto* first = std::begin(kEmojiSequences);
  const auto* last = std::end(kEmojiSequences);
  // Those that begin with as many bytes of `text` stand together.
  for (std::size_t size = 1; size <= text.size() && first != last; ++size) {
    const auto head = [size](std::string_view sequence) { return sequence.substr(0, size); };
    first =
        std::lower_bound(first, last, text.substr(0, size),
                         [head](std::string_view a, std::string_view b) { return head(a) < b; });
    last = std::upper_bound(first, last, text.substr(0, size),
                            [head](std::string_view a, std::string_view b) { return a < head(b); });
    if (first != last && first->size() == size) longest = size;
  }
  return longest;
}

// Decodes what ends before `end` and moves that to its beginning.
char32_t Previous(std::string_view text, std::size_t& end) {
  const std::size_t behind = end;
  do {
    --end;
  } while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
  return DecodeUtf8(text.data() + end, text.data() + behind).code_point;
}

// Whether the joiner at [begin, end) follows a Virama, which changes its form.
bool FollowsVirama(std::string_view text, std::size_t begin) {
  return begin > 0 && IsIn(kVirama, Previous(text, begin));
}

// Whether the non-joiner at [begin, end) parts letters that would be joined.
bool PartsLetters(std::string_view text, std::size_t begin, std::size_t end) {
  char32_t before = 0;
  while (begin > 0 && IsIn(kTransparent, before = Previous(text, begin))) {
  }
  if (!IsIn(kJoinsLeft, before)) return false;
  while (end < text.size()) {
    const DecodedUtf8 next = DecodeUtf8(text.data() + end, text.data() + text.size());
    if (!IsIn(kTransparent, next.code_point)) return IsIn(kJoinsRight, next.code_point);
    end += std::max<std::size_t>(1, next.length);
  }
  return false;
}

template <typename Counts>
bool Shows(std::string_view text, const Counts& counts) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t emoji = EmojiLength(text.substr(at));
    if (emoji > 0) {
      at += emoji;
      continue;
    }
    const DecodedUtf8 next = DecodeUtf8(text.data() + at, text.data() + text.size());
    const std::size_t end = at + std::max<std::size_t>(1, next.length);
    if (counts(next.code_point)) {
      const bool joiner =
          next.code_point == kZeroWidthJoiner || next.code_point == kZeroWidthNonJoiner;
      const bool shows =
          joiner && (FollowsVirama(text, at) ||
                     (next.code_point == kZeroWidthNonJoiner && PartsLetters(text, at, end)));
      if (!shows) return false;
    }
    at = end;
  }
  return true;
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

bool IsDefaultIgnorable(char32_t c) { return c >= 0xAD && IsIn(kDefaultIgnorable, c); }

bool ShowsAllCharacters(std::string_view text) {
  return IsAscii(text) || Shows(text, &IsDefaultIgnorable);
}

bool ShowsJoiners(std::string_view text) {
  return IsAscii(text) ||
         Shows(text, [](char32_t c) { return c == kZeroWidthJoiner || c == kZeroWidthNonJoiner; });
}

}  // namespace memoryd
