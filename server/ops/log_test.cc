#include "server/ops/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// A pipe as large as its system makes it.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  ~Pipe() {
    Close(0);
    Close(1);
  }
  int write_end() const { return ends_[1]; }
  void CloseReader() { Close(0); }

  // All lines; the writer must have ended.
  std::vector<std::string> Lines() {
    Close(1);
    std::string text;
    std::array<char, 4096> buffer;
    for (ssize_t n = 0; (n = ::read(ends_[0], buffer.data(), buffer.size())) > 0;) {
      text.append(buffer.data(), static_cast<std::size_t>(n));
    }
    std::vector<std::string> lines;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = text.find('\n', begin);
      EXPECT_NE(end, text.npos) << "a line without an end";
      lines.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    return lines;
  }

 private:
  void Close(std::size_t end) {
    if (ends_[end] >= 0) ::close(ends_[end]);
    ends_[end] = -1;
  }
  std::array<int, 2> ends_{-1, -1};
};

LogOptions Options(const Pipe& pipe, bool json) {
  LogOptions options;
  options.json = json;
  options.descriptor = pipe.write_end();
  return options;
}

TEST(LogTest, ALineIsAJsonObjectWithTimeLevelAndMessage) {
  Pipe pipe;
  {
    const Log log(Options(pipe, true));
    spdlog::warn("the store is {}", "away");
    spdlog::debug("not at this level");
  }
  const auto lines = pipe.Lines();
  ASSERT_EQ(lines.size(), 1u);
  const auto line = nlohmann::json::parse(lines[0]);
  EXPECT_EQ(line.size(), 3u);
  EXPECT_EQ(line["level"], "warning");
  EXPECT_EQ(line["msg"], "the store is away");
  EXPECT_THAT(line["ts"].get<std::string>(),
              MatchesRegex("[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}\\.[0-9]{6}Z"));
}

TEST(LogTest, WhateverIsLoggedALineStaysALineOfAscii) {
  const std::string nasty("\"\\\n\r\t\0\x1B[31m\x7F \xC3\xA9 \xC2\x9B \xE2\x80\xA8 \xFF\xC3", 25);
  for (const bool json : {true, false}) {
    Pipe pipe;
    {
      Log log(Options(pipe, json));
      spdlog::info(nasty);
      const LogField field{"value", nasty};
      log.Write(spdlog::level::info, nasty, {&field, 1});
    }
    const auto lines = pipe.Lines();
    ASSERT_EQ(lines.size(), 2u);
    for (const std::string& line : lines) {
      for (const char c : line) EXPECT_TRUE(c >= ' ' && c < 0x7F) << line;
    }
    if (!json) continue;
    const std::string readable("\"\\\n\r\t\0\x1B[31m\x7F \xC3\xA9 \xC2\x9B \xE2\x80\xA8 ", 23);
    const std::string kept = readable + "\xEF\xBF\xBD\xEF\xBF\xBD";
    EXPECT_EQ(nlohmann::json::parse(lines[0])["msg"], kept);
    EXPECT_EQ(nlohmann::json::parse(lines[1])["msg"], kept);
    EXPECT_EQ(nlohmann::json::parse(lines[1])["value"], kept);
  }
}

TEST(LogTest, FieldsFollowTheMessage) {
  const std::vector<LogField> fields = {
      {"method", "Put"}, {"ms", "1.500", true}, {"note", "two words"}, {"none", ""}};
  Pipe json;
  {
    Log log(Options(json, true));
    log.Write(spdlog::level::err, "call", fields);
  }
  const auto line = nlohmann::json::parse(json.Lines().at(0));
  EXPECT_EQ(line["level"], "error");
  EXPECT_EQ(line["msg"], "call");
  EXPECT_EQ(line["method"], "Put");
  EXPECT_EQ(line["ms"], 1.5);
  EXPECT_EQ(line["note"], "two words");

  Pipe text;
  {
    Log log(Options(text, false));
    log.Write(spdlog::level::err, "call", fields);
  }
  EXPECT_THAT(
      text.Lines(),
      ElementsAre(HasSubstr(" error   call method=Put ms=1.500 note=\"two words\" none=\"\"")));
}

TEST(LogTest, AVeryLongMessageIsCut) {
  Pipe pipe;
  {
    const Log log(Options(pipe, true));
    spdlog::info(std::string(100'000, 'x'));
  }
  EXPECT_LT(pipe.Lines().at(0).size(), 5000u);
}

TEST(LogTest, NobodyWaitsForAReaderThatDoesNotReadAndLostLinesAreCounted) {
  Pipe pipe;
  constexpr std::uint64_t kLines = 20'000;
  std::uint64_t dropped = 0;
  {
    const Log log(Options(pipe, true));
    // Many more than the pipe and the queue hold: this returns, or the test never ends.
    for (std::uint64_t i = 0; i < kLines; ++i) spdlog::info("line {:0100}", i);
    dropped = log.dropped();
  }
  const auto lines = pipe.Lines();
  EXPECT_GT(dropped, 0u);
  // What was queued at the end was given up; what the pipe held is whole and in order.
  EXPECT_LT(lines.size(), kLines - dropped);
  std::vector<std::string> messages;
  messages.reserve(lines.size());
  for (const std::string& line : lines) messages.push_back(nlohmann::json::parse(line)["msg"]);
  EXPECT_TRUE(std::is_sorted(messages.begin(), messages.end()));
  EXPECT_FALSE(messages.empty());
}

TEST(LogTest, AReaderThatWentAwayCostsLinesOnly) {
  ::signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  pipe.CloseReader();
  const Log log(Options(pipe, true));
  spdlog::info("to nobody");
  // Waits for the log's thread without a clock: the count rises, or the test's time runs out.
  while (log.dropped() == 0) ::sched_yield();
  EXPECT_EQ(log.dropped(), 1u);
}

TEST(LogTest, WhatIsLoggedAfterTheEndIsLostWithoutHarm) {
  Pipe pipe;
  { const Log log(Options(pipe, true)); }
  spdlog::error("too late");
  EXPECT_TRUE(pipe.Lines().empty());
}

}  // namespace
}  // namespace memoryd
