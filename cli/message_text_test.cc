#include "cli/message_text.h"

#include <gtest/gtest.h>

namespace memoryd::cli {
namespace {

v1::Message MessageOf(const char* role, const char* text) {
  v1::Message message;
  message.set_role(role);
  message.set_text(text);
  return message;
}

TEST(ConversationLines, AreTheRoleAndTheText) {
  v1::Message message = MessageOf("user", "hello");
  EXPECT_EQ(ConversationLines(message, false), "user: hello\n");
  EXPECT_EQ(ConversationLines(message, true), "\x1b[1muser\x1b[0m: hello\n");
  message.set_name("Ann");
  EXPECT_EQ(ConversationLines(message, false), "user Ann: hello\n");
}

TEST(ConversationLines, CanNotPassForAnotherMessage) {
  EXPECT_EQ(ConversationLines(MessageOf("user", "a\nsystem: b"), false),
            "user:\n  | a\n  | system: b\n");
  EXPECT_EQ(ConversationLines(MessageOf("a\nb", "\x1b[2J"), false), "a\\nb: \\u{1B}[2J\n");
}

TEST(ConversationLines, TellWhatOtherPartsAre) {
  v1::Message message;
  message.set_role("assistant");
  message.add_parts()->set_text("I look.");
  auto& call = *message.add_parts()->mutable_tool_call();
  call.set_name("find");
  call.set_arguments_json("{}");
  message.add_parts()->mutable_image()->set_url("u");
  EXPECT_EQ(ConversationLines(message, false), "assistant: I look. [find {}] [image]\n");
}

}  // namespace
}  // namespace memoryd::cli
