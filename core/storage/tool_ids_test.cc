#include "core/storage/tool_ids.h"

#include <gtest/gtest.h>

namespace memoryd {
namespace {

TEST(ToolIdsTest, ComeBackWithTheirBytes) {
  Message message;
  EXPECT_EQ(EncodeToolIds(message), "");
  message.call_ids = {"", "a", std::string(70'000, 'b')};
  message.result_ids = {std::string("c\0d", 3)};
  Message decoded;
  ASSERT_TRUE(DecodeToolIds(EncodeToolIds(message), decoded));
  EXPECT_EQ(decoded.call_ids, message.call_ids);
  EXPECT_EQ(decoded.result_ids, message.result_ids);
}

TEST(ToolIdsTest, DamagedOnesAreRefused) {
  Message message;
  message.call_ids = {"abc", "def"};
  const std::string bytes = EncodeToolIds(message);
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    Message decoded;
    EXPECT_FALSE(DecodeToolIds(bytes.substr(0, size), decoded)) << size;
  }
  Message decoded;
  EXPECT_FALSE(DecodeToolIds(bytes + "x", decoded));
  EXPECT_FALSE(DecodeToolIds(std::string(20, '\xFF'), decoded));
}

}  // namespace
}  // namespace memoryd
