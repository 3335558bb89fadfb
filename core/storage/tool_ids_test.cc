#include "core/storage/tool_ids.h"

#include <gtest/gtest.h>

namespace memoryd {
namespace {

TEST(ToolIdsTest, ComeBackWithTheirBytes) {
  Message message;
  EXPECT_EQ(EncodeToolIds(message), "");
  message.ids.value().calls = {"", "a", std::string(70'000, 'b')};
  message.ids.value().results = {std::string("c\0d", 3)};
  Message decoded;
  ASSERT_TRUE(DecodeToolIds(EncodeToolIds(message), decoded));
  EXPECT_EQ(decoded.ids->calls, message.ids->calls);
  EXPECT_EQ(decoded.ids->results, message.ids->results);
}

TEST(ToolIdsTest, DamagedOnesAreRefused) {
  Message message;
  message.ids.value().calls = {"abc", "def"};
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
