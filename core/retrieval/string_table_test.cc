#include "core/retrieval/string_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

namespace memoryd {
namespace {

TEST(StringTableTest, StringsHaveNumbersInTheirOrder) {
  StringTable table;
  EXPECT_EQ(table.Find("one"), StringTable::kNone);
  EXPECT_EQ(table.Add("one"), 0U);
  EXPECT_EQ(table.Add(""), 1U);
  EXPECT_EQ(table.Add(std::string_view("o\0ne", 4)), 2U);
  EXPECT_EQ(table.Add("one"), 0U);
  EXPECT_EQ(table.Find(""), 1U);
  EXPECT_EQ(table[2], std::string_view("o\0ne", 4));
  EXPECT_EQ(table.size(), 3U);
}

TEST(StringTableTest, ManyAreFoundAlsoWhenTheTableHasMoved) {
  constexpr std::uint32_t kCount = 20'000;
  StringTable table;
  for (std::uint32_t i = 0; i < kCount; ++i) ASSERT_EQ(table.Add(std::to_string(i * 7919)), i);
  StringTable moved = std::move(table);
  table = StringTable();
  EXPECT_EQ(table.Add("0"), 0U);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(moved.Add(std::to_string(i * 7919)), i);
    ASSERT_EQ(moved[i], std::to_string(i * 7919));
  }
  EXPECT_EQ(moved.size(), kCount);
  EXPECT_EQ(moved.Find("none"), StringTable::kNone);
  EXPECT_LT(moved.ByteSize(), kCount * (9 + 12)) << "9 digits at most";
}

}  // namespace
}  // namespace memoryd
