// Characters that do not show, by Unicode's properties.
#ifndef MEMORYD_CORE_BASE_VISIBLE_TEXT_H_
#define MEMORYD_CORE_BASE_VISIBLE_TEXT_H_

#include <string_view>

namespace memoryd {

inline constexpr char32_t kZeroWidthNonJoiner = 0x200C;
inline constexpr char32_t kZeroWidthJoiner = 0x200D;

// Whether the character has the property Default_Ignorable_Code_Point.
bool IsDefaultIgnorable(char32_t c);

// Whether every default-ignorable character of the UTF-8 `text` stands where it changes what is
// seen: the joiners U+200C and U+200D as RFC 5892, appendices A.1 and A.2, has them, and any in the
// sequences that Unicode recommends for emoji. Linear in the text.
bool ShowsAllCharacters(std::string_view text);

// The same of the two joiners alone.
bool ShowsJoiners(std::string_view text);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_VISIBLE_TEXT_H_
