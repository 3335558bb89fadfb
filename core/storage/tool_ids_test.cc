#include "core/storage/tool_ids.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>

#include "core/model/message.h"

namespace memoryd {
namespace {

TEST(ToolIdsTest, ComeBackWithTheirBytes) {
  MessageDraft message;
  EXPECT_EQ(EncodeToolIds(*MessagePtr(message)), "");
  message.ids.value().calls = {"", "a", std::string(70'000, 'b')};
  message.ids.value().results = {std::string("c\0d", 3)};
  MessageDraft decoded;
  ASSERT_TRUE(DecodeToolIds(EncodeToolIds(*MessagePtr(message)), decoded));
  EXPECT_EQ(decoded.ids->calls, message.ids->calls);
  EXPECT_EQ(decoded.ids->results, message.ids->results);
  EXPECT_EQ(decoded.ids->expire_us, 0);
}

TEST(ToolIdsTest, ATimeComesBackWithIdsAndWithout) {
  for (const std::int64_t expire_us :
       {std::int64_t{1}, std::int64_t{127}, std::int64_t{128}, std::int64_t{253402300799999999},
        std::numeric_limits<std::int64_t>::max()}) {
    MessageDraft message;
    message.ids.value().expire_us = expire_us;
    MessageDraft decoded;
    ASSERT_TRUE(DecodeToolIds(EncodeToolIds(*MessagePtr(message)), decoded));
    EXPECT_EQ(*decoded.ids, *message.ids);
    message.ids.value().results = {"a"};
    MessageDraft both;
    ASSERT_TRUE(DecodeToolIds(EncodeToolIds(*MessagePtr(message)), both));
    EXPECT_EQ(*both.ids, *message.ids);
  }
}

TEST(ToolIdsTest, DamagedOnesAreRefused) {
  MessageDraft message;
  message.ids.value().calls = {"abc", "def"};
  const std::string bytes = EncodeToolIds(*MessagePtr(message));
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    MessageDraft decoded;
    EXPECT_FALSE(DecodeToolIds(bytes.substr(0, size), decoded)) << size;
  }
  MessageDraft decoded;
  for (const std::string& behind : {std::string(1, '\0'), std::string("xx"), std::string("\xFF")}) {
    EXPECT_FALSE(DecodeToolIds(bytes + behind, decoded));
  }
  EXPECT_FALSE(DecodeToolIds(std::string(20, '\xFF'), decoded));
}

}  // namespace
}  // namespace memoryd
