#include "cli/export_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace memoryd::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kHead[] = "{\"memoryd_export\":1}\n";
constexpr char kSession[] = "{\"session\":{\"session_id\":\"s\"}}\n";

// The error of reading all of it, "" for none.
std::string ErrorOf(const std::string& text, std::size_t most_line_bytes = kMostLineBytes) {
  std::istringstream input(text);
  ExportLines lines(input, most_line_bytes);
  while (true) {
    const auto line = lines.Next();
    if (!line.ok()) {
      EXPECT_TRUE(absl::IsInvalidArgument(line.status()));
      return std::string(line.status().message());
    }
    if (std::holds_alternative<ExportEnd>(*line)) return {};
  }
}

TEST(ExportLinesTest, ReadsWhatIsKnownAndPassesOverTheRest) {
  std::istringstream input(std::string(kHead) + kSession +
                           "{\"message\":{\"message_id\":\"m\",\"position\":\"7\",\"new\":[1]}}\n"
                           "{\"later\":{}}\n"
                           "{\"content\":{\"text\":\"\\u0000\"}}\n"
                           "{\"end\":{\"sessions\":1,\"messages\":1,\"contents\":1}}\n");
  ExportLines lines(input);
  EXPECT_EQ(std::get<v1::Session>(lines.Next().value()).session_id(), "s");
  EXPECT_EQ(std::get<v1::Message>(lines.Next().value()).position(), 7);
  EXPECT_EQ(std::get<v1::Content>(lines.Next().value()).text(), std::string(1, '\0'));
  EXPECT_TRUE(std::holds_alternative<ExportEnd>(lines.Next().value()));
  EXPECT_EQ(lines.number(), 6);
  EXPECT_EQ(lines.counts(), (ExportCounts{1, 1, 1}));
}

TEST(ExportLinesTest, WhatIsWrongIsSaidWithItsLine) {
  const std::string begin = std::string(kHead) + kSession;
  EXPECT_THAT(ErrorOf(""), HasSubstr("is no export"));
  EXPECT_THAT(ErrorOf("{\"end\":{}}\n"), HasSubstr("line 1: is no export"));
  EXPECT_THAT(ErrorOf("{\"memoryd_export\":2}\n"), HasSubstr("line 1: format 2"));
  EXPECT_THAT(ErrorOf(std::string(kHead) + "{\"message\":{}}\n"), HasSubstr("before any session"));
  EXPECT_THAT(ErrorOf(begin + "nonsense\n"), HasSubstr("line 3: is no JSON"));
  EXPECT_THAT(ErrorOf(begin + "{\"a\":1,\"b\":2}\n"), HasSubstr("one key"));
  EXPECT_THAT(ErrorOf(begin + "{\"message\":{\"position\":\"x\"}}\n"), HasSubstr("line 3: "));
  EXPECT_THAT(ErrorOf(begin), HasSubstr("not whole"));
  EXPECT_THAT(ErrorOf(begin + "{\"end\":{\"sessions\":2,\"messages\":0,\"contents\":0}}\n"),
              HasSubstr("there were"));
  const std::string end = "{\"end\":{\"sessions\":1,\"messages\":0,\"contents\":0}}\n";
  EXPECT_EQ(ErrorOf(begin + end), "");
  EXPECT_THAT(ErrorOf(begin + end + kHead), HasSubstr("line 3: is the end"));
}

TEST(ExportLinesTest, AnyLineMayBeNestedSoDeepAndNoDeeper) {
  const auto nested = [](std::size_t levels) {
    return "{\"later\":" + std::string(levels, '[') + std::string(levels, ']') + "}\n";
  };
  const std::string begin = std::string(kHead) + kSession;
  EXPECT_THAT(ErrorOf(begin + nested(199)), HasSubstr("not whole"));
  EXPECT_THAT(ErrorOf(begin + nested(200)), HasSubstr("line 3: is nested deeper"));
  EXPECT_THAT(ErrorOf(nested(1'000'000)), HasSubstr("line 1: is nested deeper"));
  // Brackets in text are text, also behind an escaped quote.
  EXPECT_THAT(ErrorOf(begin + "{\"later\":\"\\\"" + std::string(300, '{') + "\"}\n"),
              HasSubstr("not whole"));
}

TEST(ExportLinesTest, ALineThatIsTooLongIsNotReadWhole) {
  constexpr std::size_t kMost = std::size_t{1} << 20;
  const auto line = [](std::size_t bytes) {
    const std::string around = "{\"later\":\"\"}";
    return "{\"later\":\"" + std::string(bytes - around.size(), 'x') + "\"}";
  };
  const std::string begin = std::string(kHead) + kSession;
  EXPECT_THAT(ErrorOf(begin + line(kMost), kMost), HasSubstr("line 3: the export ends"));
  EXPECT_THAT(ErrorOf(begin + line(kMost) + "\n\n", kMost), HasSubstr("line 4: is no JSON"));
  EXPECT_THAT(ErrorOf(begin + line(kMost + 1), kMost), HasSubstr("line 3: has more than 1 MiB"));
  std::istringstream input(begin + std::string(4 * kMost, 'x'));
  ExportLines lines(input, kMost);
  EXPECT_TRUE(lines.Next().ok());
  EXPECT_THAT(std::string(lines.Next().status().message()), HasSubstr("line 3: has more than"));
  input.clear();
  EXPECT_LE(input.tellg(), static_cast<std::streamoff>(kMost + (1 << 20)));
}

}  // namespace
}  // namespace memoryd::cli
