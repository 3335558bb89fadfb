#include "cli/message_text.h"

#include <fmt/format.h>

#include <string>

#include "cli/field_lines.h"
#include "cli/terminal.h"
#include "cli/terminal_text.h"

namespace memoryd::cli {

std::string TextOf(const v1::Message& message) {
  if (message.has_text()) return message.text();
  std::string text;
  for (const v1::Part& part : message.parts()) {
    if (!text.empty()) text += ' ';
    switch (part.kind_case()) {
      case v1::Part::kText:
        text += part.text();
        break;
      case v1::Part::kJson:
        text += part.json();
        break;
      case v1::Part::kToolCall:
        text += fmt::format("[{} {}]", part.tool_call().name(), part.tool_call().arguments_json());
        break;
      case v1::Part::kToolResult:
        text += fmt::format("[{}] {}", part.tool_result().name(), part.tool_result().text());
        break;
      default:
        if (const auto* kind = part.GetReflection()->GetOneofFieldDescriptor(
                part, part.GetDescriptor()->oneof_decl(0))) {
          text += fmt::format("[{}]", kind->name());
        }
    }
  }
  return text;
}

std::string TextOf(const v1::Content& content) {
  if (content.has_text()) return content.text();
  if (content.has_json()) return content.json();
  return fmt::format("[{}]", content.mime_type());
}

std::string ConversationLines(const v1::Message& message, bool colour) {
  std::string who = message.role();
  if (!message.name().empty()) who += " " + message.name();
  return Bold(EscapeForTerminal(who), colour) + ":" + TextLines(TextOf(message), 0);
}

}  // namespace memoryd::cli
