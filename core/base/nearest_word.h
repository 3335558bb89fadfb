// What a mistyped word may have meant.
#ifndef MEMORYD_CORE_BASE_NEAREST_WORD_H_
#define MEMORYD_CORE_BASE_NEAREST_WORD_H_

#include <string>
#include <string_view>
#include <vector>

namespace memoryd {

// The one of `words` that `typed` most likely stands for: a third of its letters at most, and two,
// are wrong, missing, too many or, two neighbours, in each other's place; or it is the beginning of
// one word alone. Empty for none. Of several alike the first.
std::string NearestWord(std::string_view typed, const std::vector<std::string>& words);

// `: did you mean WORD?` of NearestWord(), or nothing.
std::string DidYouMean(std::string_view typed, const std::vector<std::string>& words);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_NEAREST_WORD_H_
