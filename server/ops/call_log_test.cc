#include "server/ops/call_log.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/model/trace_context.h"
#include "server/ops/log.h"
#include "server/wire/method.h"

namespace memoryd {
namespace {

using Code = absl::StatusCode;

constexpr char kTrace[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

class CallLogTest : public ::testing::Test {
 protected:
  // The line of one call, as JSON.
  static nlohmann::json Line(const CallRecord& record) {
    const int file = ::memfd_create("log", 0);
    LogOptions options;
    options.descriptor = file;
    {
      Log log(options);
      CallLog(&log, LoggedCalls::kAll).Write(record);
    }
    std::string text(4096, '\0');
    text.resize(static_cast<std::size_t>(::pread(file, text.data(), text.size(), 0)));
    ::close(file);
    return nlohmann::json::parse(text);
  }

  static bool Wants(LoggedCalls calls, Code code, const char* level = "info") {
    LogOptions options;
    options.level = level;
    Log log(options);
    return CallLog(&log, calls).Wants(code);
  }
};

TEST_F(CallLogTest, ALineTellsWhoseCallItWasByHashesAlone) {
  const absl::Status status = absl::OkStatus();
  const TracePtr trace = MakeTrace(*ParseTraceparent(kTrace), "");
  const auto line = Line({Method::kGetAll, status, std::chrono::microseconds(1500), "r1",
                          TraceId(kTrace), "tenant", "session", trace.get()});
  EXPECT_EQ(line["level"], "info");
  EXPECT_EQ(line["msg"], "call");
  EXPECT_EQ(line["method"], "GetAll");
  EXPECT_EQ(line["code"], "OK");
  EXPECT_EQ(line["ms"], 1.5);
  EXPECT_EQ(line["request_id"], "r1");
  EXPECT_EQ(line["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(line["span_id"], std::string(trace->span_id()));
  EXPECT_EQ(line["parent_id"], "00f067aa0ba902b7");
  // As from: printf tenant | sha256sum
  EXPECT_EQ(line["tenant"], "e9da86d351cf9a76");
  EXPECT_EQ(line["session"], "3f3af1ecebbd1410");
  EXPECT_FALSE(line.contains("reason"));
  EXPECT_FALSE(line.contains("error"));
}

TEST_F(CallLogTest, TheTextOfAnErrorIsThereWhenTheCallerDidNotGetIt) {
  const absl::Status internal = absl::InternalError("a row is odd");
  EXPECT_EQ(Line({Method::kPut, internal, {}, "r", "", "t", ""})["error"], "a row is odd");
  const absl::Status refused = InvalidField("messages[0].text", "some secret of the caller");
  const auto line = Line({Method::kPut, refused, {}, "r", "", "t", ""});
  EXPECT_EQ(line["reason"], "INVALID_FIELD");
  EXPECT_EQ(line.dump().find("secret"), std::string::npos);
  EXPECT_FALSE(line.contains("session"));
  for (const char* name : {"trace_id", "span_id", "parent_id"}) {
    EXPECT_FALSE(line.contains(name)) << name;
  }
}

TEST_F(CallLogTest, ErrorsAreThoseOfTheServer) {
  for (const Code code : {Code::kUnavailable, Code::kResourceExhausted, Code::kDeadlineExceeded,
                          Code::kInternal, Code::kUnknown, Code::kDataLoss}) {
    EXPECT_TRUE(Wants(LoggedCalls::kErrors, code)) << code;
    EXPECT_TRUE(Wants(LoggedCalls::kAll, code)) << code;
  }
  for (const Code code : {Code::kOk, Code::kInvalidArgument, Code::kNotFound, Code::kAborted,
                          Code::kAlreadyExists, Code::kUnauthenticated}) {
    EXPECT_FALSE(Wants(LoggedCalls::kErrors, code)) << code;
    EXPECT_TRUE(Wants(LoggedCalls::kAll, code)) << code;
    EXPECT_FALSE(Wants(LoggedCalls::kAll, code, "warning")) << code;
  }
}

TEST_F(CallLogTest, WhatTheCallerIsNotToldIsLoggedAlways) {
  EXPECT_TRUE(Wants(LoggedCalls::kNone, Code::kInternal, "error"));
  EXPECT_FALSE(Wants(LoggedCalls::kNone, Code::kUnavailable));
  EXPECT_FALSE(Wants(LoggedCalls::kErrors, Code::kUnavailable, "error"));
}

TEST(RequestIdTest, VisibleAsciiOfSixtyFourBytesIsTaken) {
  EXPECT_EQ(RequestId("a-1"), "a-1");
  EXPECT_EQ(RequestId(std::string(64, '~')), std::string(64, '~'));
}

TEST(RequestIdTest, AnythingElseGetsANewOne) {
  for (const std::string& value :
       {std::string(), std::string(65, 'a'), std::string("a b"), std::string("a\nb"),
        std::string("\xC3\xA9"), std::string("a\x7F"), std::string("a\0b", 3)}) {
    const std::string id = RequestId(value);
    EXPECT_EQ(id.size(), 32u);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_NE(id, RequestId(value));
  }
}

TEST(TraceIdTest, IsTheSecondPartOfAValidTraceparent) {
  EXPECT_EQ(TraceId(kTrace), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(TraceId("cc" + std::string(kTrace).substr(2) + "-what-comes"),
            "4bf92f3577b34da6a3ce929d0e0e4736");
}

TEST(TraceIdTest, IsEmptyForAnythingElse) {
  const std::string good = kTrace;
  const auto with = [&good](std::size_t at, const std::string& text) {
    return std::string(good).replace(at, text.size(), text);
  };
  for (const std::string& bad :
       {std::string(), good.substr(0, 54), good + "-x", good + "x", "cc" + good.substr(2) + "x",
        "ff" + good.substr(2), with(2, "_"), with(35, "_"), with(52, "_"), with(3, "G"),
        with(3, "A"), with(36, "\n"), with(53, "\""), with(3, std::string(32, '0')),
        with(36, std::string(16, '0'))}) {
    EXPECT_EQ(TraceId(bad), "") << bad;
  }
}

}  // namespace
}  // namespace memoryd
