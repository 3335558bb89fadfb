// What models' answers have in common: pure functions.
#ifndef MEMORYD_CORE_BLOCKS_ANSWER_TEXT_H_
#define MEMORYD_CORE_BLOCKS_ANSWER_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace memoryd {

// Of ASCII letters.
std::string Lowercase(std::string_view text);

// Whether there is a letter or digit in it; what is not ASCII counts as letters.
bool HasWords(std::string_view text);

// Stripped, on one line: control characters and bytes that are no UTF-8 become spaces.
std::string CleanLine(std::string_view text);

// The numbers in `text`, whatever is between them.
std::vector<std::int64_t> NumbersIn(std::string_view text);
// Those of a member: a number, a text with numbers, or an array of either.
std::vector<std::int64_t> NumbersIn(const nlohmann::json& object, const char* member);

// Calls visit(attributes, text) for each element `name`, in any case of letters. One that is not
// closed ends at the next one, or where the list around it, `name` and an `s`, is closed. The last
// one is left out where nothing closes it though another one was closed: it is half an element.
// Returns whether there was any.
bool ForEachElement(std::string_view answer, std::string_view name,
                    const std::function<void(std::string_view, std::string_view)>& visit);

// The value of an attribute among `attributes`; "" when it is not there.
std::string_view AttributeValue(std::string_view attributes, std::string_view name);

// What stands between the first fences, else all of it.
std::string_view WithoutFences(std::string_view answer);

// Calls `take` with the JSON arrays and objects in the answer, from the first bracket to the last,
// until it is true, which is returned.
bool ForJsonIn(std::string_view answer, const std::function<bool(const nlohmann::json&)>& take);

// What follows `- `, `* `, `1. ` or `1) `; "" for another line.
std::string_view ListItem(std::string_view line);

// Calls `visit` with each line.
void ForEachLine(std::string_view text, const std::function<void(std::string_view)>& visit);

// Whether the answer is one of the short ways to say that there is nothing.
bool SaysNothing(std::string_view answer);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_ANSWER_TEXT_H_
