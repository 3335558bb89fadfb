#include "core/model/trace_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>

namespace memoryd {
namespace {

constexpr char kCaller[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TracePtr Trace(const std::string& traceparent, const std::string& tracestate = "") {
  const auto parsed = ParseTraceparent(traceparent);
  return parsed.has_value() ? MakeTrace(*parsed, tracestate) : nullptr;
}

TEST(ParseTraceparentTest, TellsTraceParentAndFlag) {
  const auto parsed = ParseTraceparent(kCaller);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(parsed->parent_id, "00f067aa0ba902b7");
  EXPECT_TRUE(parsed->sampled);
}

TEST(ParseTraceparentTest, IsNoneForWhatIsMalformed) {
  const std::string good = kCaller;
  const auto with = [&good](std::size_t at, const std::string& text) {
    return std::string(good).replace(at, text.size(), text);
  };
  for (const std::string& bad :
       {std::string(), good.substr(0, 54), good + "-x", good + "x", "cc" + good.substr(2) + "x",
        "ff" + good.substr(2), with(2, "_"), with(35, "_"), with(52, "_"), with(3, "G"),
        with(3, "A"), with(36, "\n"), with(53, "\""), with(53, "0A"), with(3, std::string(32, '0')),
        with(36, std::string(16, '0'))}) {
    EXPECT_FALSE(ParseTraceparent(bad).has_value()) << bad;
  }
}

TEST(MakeTraceTest, TheTraceStaysAndTheParentIsANewSpan) {
  const TracePtr trace = Trace(kCaller);
  const auto passed_on = ParseTraceparent(trace->traceparent);
  ASSERT_TRUE(passed_on.has_value());
  EXPECT_EQ(passed_on->trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_NE(passed_on->parent_id, "00f067aa0ba902b7");
  EXPECT_TRUE(passed_on->sampled);
  EXPECT_EQ(trace->trace_id(), passed_on->trace_id);
  EXPECT_EQ(trace->span_id(), passed_on->parent_id);
  EXPECT_EQ(trace->parent_id, "00f067aa0ba902b7");
  EXPECT_NE(Trace(kCaller)->span_id(), trace->span_id());
}

TEST(MakeTraceTest, FlagsWithoutAMeaningAreZeroAndALaterVersionIsPassedOnAsOurs) {
  const std::string ids = std::string(kCaller).substr(2, 51);
  for (const auto& [flags, expected] : {std::pair("00", "00"), std::pair("01", "01"),
                                        std::pair("fe", "00"), std::pair("ff", "01")}) {
    const TracePtr trace = Trace("cc" + ids + flags + "-what-comes");
    EXPECT_EQ(trace->traceparent.size(), 55u);
    EXPECT_TRUE(trace->traceparent.starts_with("00-4bf9")) << trace->traceparent;
    EXPECT_TRUE(trace->traceparent.ends_with(std::string("-") + expected)) << trace->traceparent;
  }
}

TEST(MakeTraceTest, AWellFormedTracestateIsPassedOnAsItIs) {
  std::string most = "a=1";
  for (int i = 1; i < 32; ++i) most += ",k" + std::to_string(i) + "=v";
  for (const std::string& state :
       {std::string("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
        std::string("fw529a3039@dt=FfI d;x"), std::string("a=1 , b=2\t,"),
        "1-_*/@=" + std::string(256, '~'), most}) {
    EXPECT_EQ(Trace(kCaller, state)->tracestate, state);
  }
}

TEST(MakeTraceTest, AMalformedTracestateIsLeftOutAndTheTraceStays) {
  std::string too_many = "a=1";
  for (int i = 1; i < 33; ++i) too_many += ",k" + std::to_string(i) + "=v";
  for (const std::string& state :
       {std::string(), std::string(" , "), std::string("a"), std::string("=1"), std::string("a="),
        std::string("A=1"), std::string("_a=1"), std::string("a=1=2"), std::string("a=\x01"),
        std::string("a=\xC3\xA9"), std::string("a=1,b"), std::string("a=1\r\nX: y"),
        std::string(257, 'a') + "=1", "a=" + std::string(257, 'x'), too_many}) {
    const TracePtr trace = Trace(kCaller, state);
    EXPECT_EQ(trace->tracestate, "") << state;
    EXPECT_EQ(trace->trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
  }
}

}  // namespace
}  // namespace memoryd
