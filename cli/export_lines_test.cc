#include "cli/export_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <ios>
#include <sstream>
#include <string>
#include <variant>

#include "absl/status/status.h"

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
  EXPECT_EQ(lines.counts(), (ExportCounts{1, 1, 1, 0, 0}));
}

TEST(ExportLinesTest, WhatIsWrongIsSaidWithItsLine) {
  const std::string begin = std::string(kHead) + kSession;
  EXPECT_THAT(ErrorOf(""), HasSubstr("is no export"));
  EXPECT_THAT(ErrorOf("{\"end\":{}}\n"), HasSubstr("line 1: is no export"));
  EXPECT_THAT(ErrorOf("{\"memoryd_export\":3}\n"), HasSubstr("line 1: format 3"));
  EXPECT_THAT(ErrorOf(std::string(kHead) + "{\"message\":{}}\n"),
              HasSubstr("line 2: stands below no session"));
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

TEST(ExportLinesTest, NamespacesHaveTheirItemsInFormatTwo) {
  const std::string head = "{\"memoryd_export\":2}\n";
  const std::string name_space = "{\"namespace\":{\"namespace\":[\"a\"]}}\n";
  const std::string item = "{\"item\":{\"key\":\"k\",\"json\":\"1.0\",\"vector\":[-0.0,1e-45]}}\n";
  const auto end = [](int sessions, int namespaces, int items) {
    return "{\"end\":{\"sessions\":" + std::to_string(sessions) +
           ",\"messages\":0,\"contents\":0,\"namespaces\":" + std::to_string(namespaces) +
           ",\"items\":" + std::to_string(items) + "}}\n";
  };
  std::istringstream input(head + kSession + name_space + item + name_space + end(1, 2, 1));
  ExportLines lines(input);
  EXPECT_EQ(lines.format(), 0);
  EXPECT_EQ(std::get<v1::Session>(lines.Next().value()).session_id(), "s");
  EXPECT_EQ(lines.format(), kNamespacesFormat);
  EXPECT_EQ(std::get<v1::Namespace>(lines.Next().value()).namespace_(0), "a");
  const auto read = std::get<v1::Item>(lines.Next().value());
  EXPECT_EQ(read.json(), "1.0");
  ASSERT_EQ(read.vector_size(), 2);
  EXPECT_TRUE(std::signbit(read.vector(0)));
  EXPECT_GT(read.vector(1), 0);
  EXPECT_TRUE(std::holds_alternative<v1::Namespace>(lines.Next().value()));
  EXPECT_TRUE(std::holds_alternative<ExportEnd>(lines.Next().value()));
  EXPECT_EQ(lines.counts(), (ExportCounts{1, 0, 0, 2, 1}));

  EXPECT_EQ(ErrorOf(head + end(0, 0, 0)), "");
  EXPECT_THAT(ErrorOf(head + name_space + item + end(0, 1, 2)), HasSubstr("there were"));
  EXPECT_THAT(ErrorOf(head + "{\"end\":{\"sessions\":0,\"messages\":0,\"contents\":0}}\n"),
              HasSubstr("there were"));
  EXPECT_THAT(ErrorOf(head + kSession + item), HasSubstr("line 3: stands below no namespace"));
  EXPECT_THAT(ErrorOf(head + kSession + name_space + "{\"message\":{}}\n"),
              HasSubstr("line 4: stands below no session"));
  EXPECT_THAT(ErrorOf(std::string(kHead) + name_space), HasSubstr("line 2: a namespace has no"));
  EXPECT_THAT(ErrorOf(std::string(kHead) + kSession + item), HasSubstr("an item has no place in"));
}

TEST(ExportLinesTest, ZerosKeepTheirSign) {
  EXPECT_EQ(WithSignedZeros(R"({"a":[-0,-0,0,-0.5,-1,-0],"b":-0})"),
            R"({"a":[-0.0,-0.0,0,-0.5,-1,-0.0],"b":-0.0})");
  EXPECT_EQ(WithSignedZeros(R"({"text":"[-0,\"-0,"})"), R"({"text":"[-0,\"-0,"})");
  EXPECT_EQ(WithSignedZeros(""), "");
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
