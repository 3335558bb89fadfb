#include "core/storage/sqlite/row_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

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

}  // namespace
}  // namespace memoryd::sqlite
