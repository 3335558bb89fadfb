#include "server/http2/outgoing_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>

namespace memoryd {
namespace {

class OutgoingBytesTest : public ::testing::Test {
 protected:
  void Refer(const std::string& text) {
    const auto owner = std::make_shared<const std::string>(text);
    owners_ = owner;
    bytes_.Refer(owner, *owner);
  }
  // Takes up to `most` bytes, as a socket does.
  std::string Take(std::size_t most) {
    std::array<iovec, 2> parts;
    const std::size_t count = bytes_.Gather(parts);
    std::string taken;
    for (std::size_t i = 0; i < count; ++i) {
      taken.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
    }
    taken.resize(std::min(taken.size(), most));
    bytes_.Remove(taken.size());
    return taken;
  }
  std::string TakeAll(std::size_t most) {
    std::string all;
    while (!bytes_.empty()) all += Take(most);
    return all;
  }
  void Add() {
    bytes_.Copy("a");
    bytes_.Copy("bc");
    Refer("DEFG");
    Refer("HI");
    bytes_.Copy("jk");
    Refer("L");
  }

  OutgoingBytes bytes_;
  std::weak_ptr<const std::string> owners_;  // Of the part that was referred to last.
};

TEST_F(OutgoingBytesTest, PartsLeaveInTheirOrderInPiecesOfAnySize) {
  for (std::size_t most = 1; most <= 13; ++most) {
    Add();
    EXPECT_EQ(bytes_.size(), 12U);
    EXPECT_EQ(TakeAll(most), "abcDEFGHIjkL") << most;
    EXPECT_EQ(bytes_.size(), 0U);
    EXPECT_TRUE(owners_.expired());
  }
}

TEST_F(OutgoingBytesTest, WhatItRefersToCanBeCopiedAtAnyPlace) {
  for (std::size_t taken = 0; taken <= 12; ++taken) {
    Add();
    std::string all;
    while (all.size() < taken) all += Take(1);
    bytes_.CopyReferred();
    EXPECT_TRUE(owners_.expired());
    bytes_.Copy("m");
    EXPECT_EQ(all + TakeAll(100), "abcDEFGHIjkLm") << taken;
  }
}

TEST_F(OutgoingBytesTest, AnOwnerIsHeldUntilItsBytesHaveLeft) {
  Refer("DEFG");
  EXPECT_EQ(Take(3), "DEF");
  EXPECT_FALSE(owners_.expired());
  bytes_.Copy("h");
  EXPECT_EQ(Take(1), "G");
  EXPECT_TRUE(owners_.expired());
  EXPECT_EQ(TakeAll(9), "h");
  Refer("DEFG");
  bytes_.Clear();
  EXPECT_TRUE(owners_.expired());
  EXPECT_TRUE(bytes_.empty());
}

}  // namespace
}  // namespace memoryd
