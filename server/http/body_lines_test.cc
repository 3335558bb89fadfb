#include "server/http/body_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using Numbered = std::pair<std::int64_t, std::string>;

std::vector<Numbered> TakeAll(BodyLines& lines, bool has_ended) {
  std::vector<Numbered> taken;
  while (std::optional<std::string> line = lines.Take(has_ended)) {
    taken.emplace_back(lines.number(), *line);
  }
  return taken;
}

TEST(BodyLines, GivesALineOnceItsEndHasCome) {
  BodyLines lines;
  lines.Put("{\"a\":");
  EXPECT_EQ(lines.Take(false), std::nullopt);
  EXPECT_EQ(lines.bytes(), 5U);
  lines.Put("1}\n{");
  EXPECT_EQ(lines.Take(false), "{\"a\":1}");
  EXPECT_EQ(lines.Take(false), std::nullopt);
  EXPECT_EQ(lines.bytes(), 1U);
}

TEST(BodyLines, TheLastLineNeedsNoEnd) {
  BodyLines lines;
  lines.Put("a\nb");
  EXPECT_THAT(TakeAll(lines, true), ElementsAre(Numbered(1, "a"), Numbered(2, "b")));
  EXPECT_EQ(lines.bytes(), 0U);
  EXPECT_EQ(lines.Take(true), std::nullopt);
}

TEST(BodyLines, BlankLinesAreLeftOutAndCounted) {
  BodyLines lines;
  lines.Put("\n \t\r\na\r\n\n\nb\n  ");
  EXPECT_THAT(TakeAll(lines, true), ElementsAre(Numbered(3, "a\r"), Numbered(6, "b")));
}

TEST(BodyLines, AnEmptyBodyHasNone) {
  BodyLines lines;
  EXPECT_EQ(lines.Take(false), std::nullopt);
  EXPECT_EQ(lines.Take(true), std::nullopt);
  EXPECT_EQ(lines.number(), 0);
}

// Returns lines of which some are blank and few are long. `expected` has those that are not blank.
template <typename Below>
std::string RandomBody(const Below& below, std::vector<Numbered>& expected) {
  std::string body;
  const int count = below(8);
  for (int i = 1; i <= count; ++i) {
    const std::string line(static_cast<std::size_t>(below(8) == 0 ? below(5000) : below(4)),
                           below(3) == 0 ? ' ' : 'x');
    if (line.find('x') != std::string::npos) expected.emplace_back(i, line);
    body += line;
    if (i < count || below(2) == 0) body += '\n';
  }
  return body;
}

TEST(BodyLinesPropertyTest, PiecesDoNotMatter) {
  constexpr unsigned kSeed = 7;
  std::mt19937 random(kSeed);
  const auto below = [&random](int end) {
    return std::uniform_int_distribution(0, end - 1)(random);
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<Numbered> expected;
    const std::string body = RandomBody(below, expected);
    BodyLines lines;
    std::vector<Numbered> taken;
    const auto take = [&lines, &taken](bool has_ended) {
      for (Numbered& line : TakeAll(lines, has_ended)) taken.push_back(std::move(line));
    };
    for (std::size_t at = 0; at < body.size();) {
      const auto size = static_cast<std::size_t>(1 + below(below(2) == 0 ? 3 : 3000));
      lines.Put(std::string_view(body).substr(at, size));
      at += size;
      if (below(2) == 0) take(false);
    }
    take(true);
    ASSERT_EQ(taken, expected) << "round " << round;
    ASSERT_EQ(lines.bytes(), 0U);
  }
}

}  // namespace
}  // namespace memoryd
