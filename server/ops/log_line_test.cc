#include "server/ops/log_line.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace memoryd {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

std::string Text(std::string_view value) {
  LogLine line(/*json=*/false);
  line.Text("v", value);
  return std::string(line.text());
}

std::string Utc(std::int64_t micros) {
  std::string text;
  AppendUtc(std::chrono::system_clock::time_point(microseconds(micros)), text);
  return text;
}

TEST(LogLineTest, FieldsOfJson) {
  LogLine line(/*json=*/true);
  line.Message("call");
  line.Text("t", "a b");
  line.Number("n", std::numeric_limits<std::int64_t>::min());
  line.Plain("b", "true");
  line.Milliseconds("ms", microseconds(12'034'005));
  EXPECT_EQ(line.text(),
            R"("msg":"call","t":"a b","n":-9223372036854775808,"b":true,"ms":12034.005)");
}

TEST(LogLineTest, FieldsForPeople) {
  LogLine line(/*json=*/false);
  line.Message("call");
  line.Text("t", "a b");
  line.Number("n", 7);
  line.Milliseconds("ms", microseconds(1));
  EXPECT_EQ(line.text(), R"(call t="a b" n=7 ms=0.001)");
}

TEST(LogLineTest, ForPeopleQuotesStandWhereTheyAreNeeded) {
  EXPECT_EQ(Text("a/b:c"), "v=a/b:c");
  EXPECT_EQ(Text(""), R"(v="")");
  EXPECT_EQ(Text("a=b"), R"(v="a=b")");
  EXPECT_EQ(Text("a\"b"), R"(v="a\"b")");
  EXPECT_EQ(Text("a\nb\x7F"), R"(v="a\nb\u007f")");
  EXPECT_EQ(Text("\xC3\xA9"), R"(v="\u00e9")");
}

TEST(LogLineTest, ALongValueIsCut) {
  EXPECT_EQ(Text(std::string(100'000, 'x')), "v=\"" + std::string(4096, 'x') + '"');
}

TEST(LogLineTest, TimesAreRoundedToMicroseconds) {
  for (const auto& [time, text] :
       {std::pair(nanoseconds(-5), "ms=0.000"), std::pair(nanoseconds(0), "ms=0.000"),
        std::pair(nanoseconds(499), "ms=0.000"), std::pair(nanoseconds(500), "ms=0.001"),
        std::pair(nanoseconds(999'999'499), "ms=999.999"),
        std::pair(nanoseconds(999'999'500), "ms=1000.000")}) {
    LogLine line(/*json=*/false);
    line.Milliseconds("ms", time);
    EXPECT_EQ(line.text(), text);
  }
}

TEST(AppendUtcTest, TellsTheTimeOfEverySecond) {
  EXPECT_EQ(Utc(0), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(Utc(1'767'323'045'678'901), "2026-01-02T03:04:05.678901Z");
  EXPECT_EQ(Utc(1'767'323'045'000'009), "2026-01-02T03:04:05.000009Z");
  EXPECT_EQ(Utc(1'767'323'046'000'000), "2026-01-02T03:04:06.000000Z");
  EXPECT_EQ(Utc(951'782'400'000'000), "2000-02-29T00:00:00.000000Z");
}

}  // namespace
}  // namespace memoryd
