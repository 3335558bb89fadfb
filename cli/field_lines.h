// A protobuf message for people, a field a line.
#ifndef MEMORYD_CLI_FIELD_LINES_H_
#define MEMORYD_CLI_FIELD_LINES_H_

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

namespace memoryd::cli {

// Lines `name: value`, what a field holds indented below it. Counts of 0 are told, other fields
// that are not set are left out. Texts are escaped line by line, each line of several behind a `|`,
// so that none can pass for a field; of bytes only their number is told.
std::string FieldLines(const google::protobuf::Message& message);

// `text` behind a name and its colon, with the end of the line: ` text`, or of several lines each
// below it, indented and behind a `|`. Escaped.
std::string TextLines(std::string_view text, int indent);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_FIELD_LINES_H_
