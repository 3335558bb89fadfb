// Cuts a long text into pieces, of which the best can stand for it.
#ifndef MEMORYD_CORE_RETRIEVAL_PASSAGES_H_
#define MEMORYD_CORE_RETRIEVAL_PASSAGES_H_

#include <cstddef>
#include <string_view>
#include <vector>

namespace memoryd {

// The passages of `text`, in order: together all of it but for white space around them. Each has at
// most `max_characters` and ends with a paragraph or line if one ends in its latter half, else with
// a sentence, else with a word; where there is none, anywhere between two characters.
std::vector<std::string_view> SplitIntoPassages(std::string_view text, std::size_t max_characters);

// The code points of `text`, which should be UTF-8.
std::size_t CharacterCount(std::string_view text);

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_PASSAGES_H_
