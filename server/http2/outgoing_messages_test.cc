#include "server/http2/outgoing_messages.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/memory_budget.h"
#include "server/http2/http2_times.h"

namespace memoryd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr OutgoingMessages::TimePoint kStart{seconds(1000)};

class OutgoingMessagesTest : public ::testing::Test {
 protected:
  void Add(std::string message) {
    const auto bytes = static_cast<std::int64_t>(message.size());
    messages_.Add(std::move(message), budget_.Count("t", MemoryUse::kReplies, bytes), kStart);
  }
  // All that leaves in frames of at most so many bytes.
  std::string FillAll(std::size_t frame) {
    std::string all;
    while (!messages_.empty()) {
      std::vector<std::uint8_t> buffer(frame);
      const OutgoingMessages::Filled filled = messages_.Fill(buffer, kStart);
      if (filled.owner != nullptr) {
        EXPECT_EQ(filled.bytes, filled.prefix.size() + filled.message.size());
        all.append(filled.prefix).append(filled.message);
      } else {
        all.append(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(filled.bytes));
      }
      ended_bytes_ += filled.ended_bytes;
    }
    return all;
  }

  MemoryBudget budget_{0};
  OutgoingMessages messages_;
  std::size_t ended_bytes_ = 0;
};

TEST_F(OutgoingMessagesTest, TheBytesAreTheSameInFramesOfAnySize) {
  const std::string expected = std::string("\0\0\0\0\5first", 10) + std::string("\0\0\0\0\0", 5) +
                               std::string("\0\0\0\1\4", 5) + std::string(260, 'x');
  for (std::size_t frame = 1; frame <= expected.size() + 1; ++frame) {
    Add("first");
    Add("");
    Add(std::string(260, 'x'));
    ended_bytes_ = 0;
    ASSERT_EQ(FillAll(frame), expected) << frame;
    EXPECT_EQ(ended_bytes_, 265U);
  }
}

TEST_F(OutgoingMessagesTest, LargeMessagesStayWhereTheyAre) {
  const std::string large(OutgoingMessages::kLarge, 'x');
  const std::string expected = std::string("\0\0\0\0\5first", 10) + std::string("\0\0\0\x20\0", 5) +
                               large + std::string("\0\0\0\0\4last", 9);
  for (const std::size_t frame : {1U, 4U, 7U, 1000U, 20'000U}) {
    Add("first");
    Add(large);
    Add("last");
    ended_bytes_ = 0;
    ASSERT_EQ(FillAll(frame), expected) << frame;
    EXPECT_EQ(ended_bytes_, 9 + large.size());
    EXPECT_EQ(budget_.held(), 0);
  }
}

TEST_F(OutgoingMessagesTest, ALargeMessageIsHeldByTheFramesThatHaveAPartOfIt) {
  Add(std::string(OutgoingMessages::kLarge, 'x'));
  std::vector<std::uint8_t> buffer(OutgoingMessages::kLarge);
  OutgoingMessages::Filled first = messages_.Fill(buffer, kStart);
  const OutgoingMessages::Filled rest = messages_.Fill(buffer, kStart);
  EXPECT_EQ(first.prefix.size() + rest.message.size(), 10U);
  EXPECT_TRUE(messages_.empty());
  messages_.Clear();
  EXPECT_EQ(budget_.held(), static_cast<std::int64_t>(OutgoingMessages::kLarge));
  first.owner.reset();
  EXPECT_EQ(budget_.held(), static_cast<std::int64_t>(OutgoingMessages::kLarge));
}

TEST_F(OutgoingMessagesTest, AMessageIsHeldUntilAllOfItHasLeft) {
  Add("first");
  Add("second");
  EXPECT_EQ(budget_.held(), 11);
  std::vector<std::uint8_t> buffer(9);
  EXPECT_EQ(messages_.Fill(buffer, kStart).ended_bytes, 0U);
  EXPECT_EQ(budget_.held(), 11);
  buffer.resize(1);
  EXPECT_EQ(messages_.Fill(buffer, kStart).ended_bytes, 5U);
  EXPECT_EQ(budget_.held(), 6);
  messages_.Clear();
  EXPECT_EQ(budget_.held(), 0);
  EXPECT_TRUE(messages_.empty());
}

TEST_F(OutgoingMessagesTest, WhatNobodyReadsIsTooSlowAndWhatIsReadSlowlyToo) {
  const Http2Times times;
  EXPECT_FALSE(messages_.IsTooSlow(times, kStart + seconds(3600))) << "nothing waits";
  Add(std::string(1000, 'x'));
  EXPECT_FALSE(messages_.IsTooSlow(times, kStart + times.reply_unread));
  EXPECT_TRUE(messages_.IsTooSlow(times, kStart + times.reply_unread + milliseconds(1)));
  // A byte now and then helps up to the time that the whole may take.
  std::vector<std::uint8_t> buffer(1);
  const auto limit = kStart + times.ForMessage(1000);
  messages_.Fill(buffer, limit);
  EXPECT_FALSE(messages_.IsTooSlow(times, limit));
  EXPECT_TRUE(messages_.IsTooSlow(times, limit + milliseconds(1)));
}

}  // namespace
}  // namespace memoryd
