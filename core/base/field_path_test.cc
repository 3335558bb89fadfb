#include "core/base/field_path.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"

namespace memoryd {
namespace {

TEST(FieldPathTest, StepsAreJoinedByDotsAndElementsNumbered) {
  const FieldPath message("messages", 3);
  EXPECT_EQ(message.ToString(), "messages[3]");
  const FieldPath part = message.Element("parts", 0);
  EXPECT_EQ(part.ToString(), "messages[3].parts[0]");
  EXPECT_EQ(part.Field("text").ToString(), "messages[3].parts[0].text");
  EXPECT_EQ(part.Field("tool_call.name").ToString(), "messages[3].parts[0].tool_call.name");
}

TEST(FieldPathTest, TheRequestAddsNothingToItsFields) {
  const FieldPath request;
  EXPECT_EQ(request.ToString(), "");
  EXPECT_EQ(request.Field("role").ToString(), "role");
  EXPECT_EQ(request.Element("parts", 2).ToString(), "parts[2]");
  const FieldPath part = request.Element("parts", 2);
  EXPECT_EQ(part.Field("text").ToString(), "parts[2].text");
}

TEST(FieldPathTest, ATextIsAPathAsItStands) {
  const std::string written = "hello.blocks[1].name";
  EXPECT_EQ(FieldPath(written).ToString(), written);
  EXPECT_EQ(ErrorDetails(InvalidField(written, "is required")),
            ErrorDetails(InvalidField("hello.blocks[1].name", "is required")));
}

}  // namespace
}  // namespace memoryd
