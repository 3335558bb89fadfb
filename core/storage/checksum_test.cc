#include "core/storage/checksum.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/model/message.h"

namespace memoryd {
namespace {

MessageDraft Stored() {
  MessageDraft message;
  message.position = 7;
  message.SetMessageId("id");
  message.role = Role::kTool;
  message.token_count = 3;
  message.ingest_us = 1'600'000'000'000'000;
  message.body = "body";
  return message;
}

TEST(ChecksumTest, IsTheSameForEverAndEverywhere) {
  // A stored row is checked by every later version.
  EXPECT_EQ(ChecksumOf(*MessagePtr(Stored()), "tools"), 150603029);
  EXPECT_EQ(ChecksumOf(*MessagePtr(MessageDraft()), ""), 3553142089);
}

TEST(ChecksumTest, CoversWhateverIsStored) {
  const std::int64_t checksum = ChecksumOf(*MessagePtr(Stored()), "tools");
  EXPECT_TRUE(CheckChecksum(*MessagePtr(Stored()), "tools", checksum).ok());
  std::vector<MessageDraft> changed(7, Stored());
  changed[0].position = 8;
  changed[1].SetMessageId("Id");
  changed[2].role = Role::kSystem;
  changed[3].token_count = 4;
  changed[4].ingest_us += 1;
  changed[5].body[0] = 'c';
  changed[6].body += '\0';
  for (const MessageDraft& message : changed) {
    const absl::Status status = CheckChecksum(*MessagePtr(message), "tools", checksum);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(ErrorReason(status), kChecksumMismatch);
  }
  EXPECT_FALSE(CheckChecksum(*MessagePtr(Stored()), "tool", checksum).ok());
  // What one column loses another does not win.
  MessageDraft moved = Stored();
  moved.body = "sbody";
  EXPECT_FALSE(CheckChecksum(*MessagePtr(moved), "tool", checksum).ok());
}

TEST(ChecksumTest, ARowWithoutOneIsTaken) {
  EXPECT_TRUE(CheckChecksum(*MessagePtr(Stored()), "tools", 0).ok());
}

}  // namespace
}  // namespace memoryd
