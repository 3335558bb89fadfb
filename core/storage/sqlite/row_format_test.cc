#include "core/storage/sqlite/row_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace memoryd::sqlite {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RowFormatTest, PositionsComeBack) {
  std::vector<std::int64_t> positions = {7};
  EXPECT_EQ(EncodePositions({}), "");
  ASSERT_TRUE(DecodePositions("", positions));
  EXPECT_THAT(positions, IsEmpty());
  EXPECT_EQ(EncodePositions({1, 2, 30}), "1,2,30");
  ASSERT_TRUE(DecodePositions("1,2,30", positions));
  EXPECT_THAT(positions, ElementsAre(1, 2, 30));
}

TEST(RowFormatTest, DamagedPositionsAreRefused) {
  std::vector<std::int64_t> positions;
  for (const char* text : {"x", "1,", ",1", "1;2", "1,x", "99999999999999999999"}) {
    EXPECT_FALSE(DecodePositions(text, positions)) << text;
  }
}

TEST(RowFormatTest, ToolIdsComeBackWithTheirBytes) {
  Message message;
  EXPECT_EQ(EncodeToolIds(message), "");
  const std::string with_nul("a\0b", 3);
  const std::string long_id(70'000, 'x');
  message.call_ids = {with_nul, "", long_id};
  message.result_ids = {"r1"};
  Message decoded;
  ASSERT_TRUE(DecodeToolIds(EncodeToolIds(message), decoded));
  EXPECT_THAT(decoded.call_ids, ElementsAre(with_nul, "", long_id));
  EXPECT_THAT(decoded.result_ids, ElementsAre("r1"));
}

TEST(RowFormatTest, DamagedToolIdsAreRefused) {
  Message message;
  message.call_ids = {"abc"};
  std::string bytes = EncodeToolIds(message);
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    Message decoded;
    EXPECT_FALSE(DecodeToolIds(std::string_view(bytes).substr(0, size), decoded)) << size;
  }
  bytes.front() = 'z';
  Message decoded;
  EXPECT_FALSE(DecodeToolIds(bytes, decoded));
}

}  // namespace
}  // namespace memoryd::sqlite
