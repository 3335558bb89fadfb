#include "server/http2/idle_reset_filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace memoryd {
namespace {

std::string Frame(int type, std::uint32_t stream, const std::string& payload) {
  std::string frame;
  for (const int shift : {16, 8, 0}) frame.push_back(static_cast<char>(payload.size() >> shift));
  frame.push_back(static_cast<char>(type));
  frame.push_back(0);
  for (const int shift : {24, 16, 8, 0}) frame.push_back(static_cast<char>(stream >> shift));
  return frame + payload;
}

std::string Reset(std::uint32_t stream) { return Frame(3, stream, std::string(4, '\x08')); }
std::string Headers(std::uint32_t stream) { return Frame(1, stream, "headers"); }

const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::string Filtered(const std::string& bytes, const std::vector<std::size_t>& cuts) {
  IdleResetFilter filter;
  std::string left;
  const auto pass = [&left](std::string_view part) {
    left += part;
    return true;
  };
  std::size_t begin = 0;
  for (const std::size_t cut : cuts) {
    EXPECT_TRUE(filter.Feed(std::string_view(bytes).substr(begin, cut - begin), pass));
    begin = cut;
  }
  EXPECT_TRUE(filter.Feed(std::string_view(bytes).substr(begin), pass));
  return left;
}

TEST(IdleResetFilterTest, OnlyResetsOfStreamsThatNeverBeganGo) {
  const std::string sent = kPreface + Frame(4, 0, "") + Reset(1) + Headers(3) + Reset(3) +
                           Frame(0, 3, std::string(300, 'd')) + Reset(5) + Headers(7) + Reset(5);
  const std::string expected = kPreface + Frame(4, 0, "") + Headers(3) + Reset(3) +
                               Frame(0, 3, std::string(300, 'd')) + Headers(7) + Reset(5);
  EXPECT_EQ(Filtered(sent, {}), expected);
  for (std::size_t cut = 0; cut <= sent.size(); ++cut) {
    EXPECT_EQ(Filtered(sent, {cut}), expected) << cut;
  }
  std::vector<std::size_t> every;
  for (std::size_t cut = 1; cut < sent.size(); ++cut) every.push_back(cut);
  EXPECT_EQ(Filtered(sent, every), expected) << "byte by byte";
}

TEST(IdleResetFilterTest, APayloadIsNotTakenForAFrame) {
  const std::string sent = kPreface + Frame(0, 1, Reset(9) + Reset(11)) + Frame(3, 9, "too long");
  EXPECT_EQ(Filtered(sent, {}), sent);
}

TEST(IdleResetFilterTest, WhateverIsCutIsPassedOnTheSame) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::string sent = kPreface;
    std::string expected = kPreface;
    std::uint32_t last = 0;
    for (int i = 0; i < 20; ++i) {
      const auto stream = static_cast<std::uint32_t>(1 + random() % 40);
      switch (random() % 3) {
        case 0:
          sent += Reset(stream);
          if (stream <= last) expected += Reset(stream);
          break;
        case 1:
          sent += Headers(stream);
          expected += Headers(stream);
          last = std::max(last, stream);
          break;
        default:
          const std::string data = Frame(0, stream, std::string(random() % 30, '\x03'));
          sent += data;
          expected += data;
      }
    }
    std::vector<std::size_t> cuts;
    for (std::size_t cut = random() % 20; cut < sent.size(); cut += random() % 20)
      cuts.push_back(cut);
    EXPECT_EQ(Filtered(sent, cuts), expected);
  }
}

TEST(IdleResetFilterTest, EndsWhenNobodyWantsMore) {
  IdleResetFilter filter;
  EXPECT_FALSE(filter.Feed(kPreface, [](std::string_view) { return false; }));
}

}  // namespace
}  // namespace memoryd
