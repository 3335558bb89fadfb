#include "core/blocks/vector_entry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include "absl/status/status.h"

namespace memoryd {
namespace {

TEST(VectorEntryTest, ComesBack) {
  VectorEntry entry;
  entry.vector = {0.0F, -1.5F, std::numeric_limits<float>::denorm_min(),
                  std::numeric_limits<float>::max()};
  entry.text = std::string("a\0b\xC3\xA9", 5);
  entry.metadata_json = R"({"k":1})";
  entry.sources = {{1, "m1"}, {std::numeric_limits<std::int64_t>::max(), ""}};
  EXPECT_EQ(DecodeVectorEntry(EncodeVectorEntry(entry)).value(), entry);
  EXPECT_EQ(DecodeVectorEntry(EncodeVectorEntry({})).value(), VectorEntry());
}

TEST(VectorEntryTest, TheFormIsFixed) {
  VectorEntry entry;
  entry.vector = {1.0F};
  entry.text = "t";
  entry.sources = {{300, "m"}};
  EXPECT_EQ(EncodeVectorEntry(entry),
            std::string("\x01\x01\x00\x00\x80\x3F\x01t\x00\x01\xAC\x02\x01m", 14));
}

TEST(VectorEntryTest, RefusesWhatWasNotWritten) {
  VectorEntry entry;
  entry.vector = {1.0F, 2.0F};
  entry.text = "text";
  entry.sources = {{5, "m5"}};
  const std::string good = EncodeVectorEntry(entry);
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(DecodeVectorEntry(good.substr(0, size)).status().code(), absl::StatusCode::kDataLoss)
        << size;
  }
  EXPECT_FALSE(DecodeVectorEntry(good + "x").ok());
  EXPECT_FALSE(DecodeVectorEntry("\x02" + good.substr(1)).ok());
  entry.vector[1] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(DecodeVectorEntry(EncodeVectorEntry(entry)).ok());
  entry.vector[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(DecodeVectorEntry(EncodeVectorEntry(entry)).ok());
  // A size that is longer than it need be, and one far beyond the bytes.
  EXPECT_FALSE(DecodeVectorEntry(std::string("\x01\x80\x00\x00\x00\x00", 6)).ok());
  EXPECT_FALSE(DecodeVectorEntry("\x01\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01").ok());
}

TEST(VectorEntryPropertyTest, WhatIsReadIsWhatWouldBeWritten) {
  std::mt19937 random(4);
  VectorEntry entry;
  entry.vector = {1.0F, 2.0F};
  entry.text = "text";
  entry.metadata_json = "{}";
  entry.sources = {{5, "m5"}, {6, "m6"}};
  const std::string good = EncodeVectorEntry(entry);
  int read = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good;
    for (std::size_t changes = 1 + random() % 3; changes > 0; --changes) {
      bytes[random() % bytes.size()] = static_cast<char>(random() % 256);
    }
    const auto decoded = DecodeVectorEntry(bytes);
    if (!decoded.ok()) continue;
    ++read;
    EXPECT_EQ(EncodeVectorEntry(*decoded), bytes);
  }
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace memoryd
