// The text of messages and contents, as commands show it to people.
#ifndef MEMORYD_CLI_MESSAGE_TEXT_H_
#define MEMORYD_CLI_MESSAGE_TEXT_H_

#include <string>

#include "memoryd/v1/memory.pb.h"

namespace memoryd::cli {

// Texts as they are; of other kinds of parts what they are.
std::string TextOf(const v1::Message& message);
std::string TextOf(const v1::Content& content);

// `role: text`, or `role name: text`, and a line feed; a text of several lines below, each behind a
// `|`, so that none can pass for a message. Escaped for a terminal; `colour`: the role in bold.
std::string ConversationLines(const v1::Message& message, bool colour);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_MESSAGE_TEXT_H_
