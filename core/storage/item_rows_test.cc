#include "core/storage/item_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/items/item.h"
#include "core/storage/checksum.h"
#include "core/storage/item_batch.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ItemContent Content(std::string value) {
  ItemContent content;
  content.value = std::move(value);
  return content;
}

TEST(ItemRowsTest, AChecksumCoversWhatIsStored) {
  std::vector<ItemContent> contents(6, Content("{}"));
  contents[1].kind = ItemValueKind::kBytes;
  contents[2].untrusted = true;
  contents[3].mime_type = "text/plain";
  contents[4].writer = "text/plain";
  contents[5].search = "[]";
  std::set<std::int64_t> sums = {ItemChecksum("other", contents[0])};
  for (const ItemContent& content : contents) sums.insert(ItemChecksum("key", content));
  EXPECT_EQ(sums.size(), contents.size() + 1);
  EXPECT_FALSE(sums.contains(0));
}

TEST(ItemRowsTest, AnItemThatIsNotWhatWasWrittenIsDataLoss) {
  const std::int64_t sum = ItemChecksum("key", Content("1"));
  EXPECT_TRUE(CheckItemChecksum("key", Content("1"), sum).ok());
  const absl::Status status = CheckItemChecksum("key", Content("2"), sum);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ErrorReason(status), kChecksumMismatch);
}

TEST(ItemRowsTest, AVectorIsReadBack) {
  const std::vector<float> written = {0.0F, -1.5F, 3.4e38F, 1e-40F};
  std::vector<float> vector;
  EXPECT_TRUE(DecodeVector(EncodeVector(written), vector));
  EXPECT_EQ(vector, written);
  EXPECT_EQ(EncodeVector(std::vector<float>{1.0F}), std::string("\x00\x00\x80\x3F", 4));
  EXPECT_TRUE(DecodeVector("", vector));
  EXPECT_THAT(vector, IsEmpty());
  EXPECT_FALSE(DecodeVector("abc", vector));
}

TEST(ItemRowsTest, AResultThatIsLeftOutDeletedNothing) {
  std::vector<ItemWriteResult> results;
  EXPECT_TRUE(DecodeItemResults("2 9 7 0 0", results));
  EXPECT_THAT(results, ElementsAre(ItemWriteResult(), ItemWriteResult(),
                                   ItemWriteResult{.version = 9, .create_us = 7}));
}

TEST(ItemRowsTest, ResultsAreReadBack) {
  const std::vector<ItemWriteResult> written = {
      {.version = 1'795'000'000'000'001, .create_us = 7, .expire_us = 0, .existed = false},
      {.version = 0, .create_us = 5, .expire_us = 0, .existed = true}};
  const std::string text = EncodeItemResults(written);
  EXPECT_EQ(text, "0 1795000000000001 7 0 0,1 0 5 0 1");
  std::vector<ItemWriteResult> results;
  EXPECT_TRUE(DecodeItemResults(text, results));
  EXPECT_EQ(results, written);
  EXPECT_TRUE(DecodeItemResults("", results));
  EXPECT_THAT(results, IsEmpty());
  for (const char* bad : {"0", "0 1 2 3", "0 1 2 3 x", "0 1 2 3 4 5", "0,1,2,3,4", "a 1 2 3 4",
                          "-1 1 2 3 4", "9999999999 1 2 3 4"}) {
    EXPECT_FALSE(DecodeItemResults(bad, results)) << bad;
  }
}

}  // namespace
}  // namespace memoryd
