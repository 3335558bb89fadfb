// Pieces of text that blocks are made of.
#ifndef MEMORYD_CORE_BLOCKS_BLOCK_TEXT_H_
#define MEMORYD_CORE_BLOCKS_BLOCK_TEXT_H_

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/blocks/block.h"
#include "core/model/body_reader.h"

namespace memoryd {

// Without the white space at both ends that Python's str.strip() takes.
std::string_view PythonStrip(std::string_view text);

// `text` with every `{name}` of `values` replaced by its value, in one pass: values are not looked
// at again, and all other braces stay.
std::string FillTemplate(std::string_view text,
                         std::span<const std::pair<std::string_view, std::string_view>> values);
std::string FillTemplate(
    std::string_view text,
    std::initializer_list<std::pair<std::string_view, std::string_view>> values);

// `text` with `&lt;` for the `<` of whatever reads as an opening or closing tag of one of `names`;
// all else stays. In any case of letters, with any white space, line ends and characters that do
// not show before and behind the slash, and with the latter two within the name. Without
// `whole_names` also of tags whose names only begin so. Linear in the text.
std::string EscapeTags(std::string_view text, std::span<const std::string_view> names,
                       bool whole_names = true);

// As the value of an attribute in double quotes.
std::string EscapeAttribute(std::string_view text);

// The five entities of XML, as characters; what else begins with `&` stays.
std::string UnescapeEntities(std::string_view text);

// The first at most `max_bytes` bytes that are whole characters.
std::string_view Head(std::string_view text, std::size_t max_bytes);
// The last ones.
std::string_view Tail(std::string_view text, std::size_t max_bytes);

// The text parts of a message, one behind the other.
std::string JoinedText(const StoredMessage& message);

// All words of a message for a model to read: text, and in brackets what tools were asked and said
// and which media there were.
std::string MessageWords(const StoredMessage& message);

// A message of the `user` with this text.
StoredMessage UserMessage(std::string text);

// A member of a JSON object, as it stands there.
struct JsonMember {
  std::string key;            // Decoded.
  std::string_view key_text;  // With its quotes.
  std::string_view value_text;
};

// The members of an object that is known to be valid JSON, in order.
std::vector<JsonMember> JsonMembers(std::string_view object);

// The object, "" for an empty one, with the member set: in its place, or at the end. Everything
// else stays byte for byte.
std::string WithStringMember(std::string_view object, std::string_view key, std::string_view value);
// Without the member; "" when nothing is left.
std::string WithoutMember(std::string_view object, std::string_view key);

// Of a state that was written without white space and ends with `"history":[...]`: all of it but
// that history, so that a Get need not read what only undoing needs.
std::string WithoutHistory(std::string_view state);

// A JSON string.
std::string JsonString(std::string_view text);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_BLOCK_TEXT_H_
