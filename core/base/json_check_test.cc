#include "core/base/json_check.h"

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace memoryd {
namespace {

using ::testing::HasSubstr;

constexpr JsonLimits kAnyValue{.any_value = true};

void ExpectRefused(std::string_view json, std::string_view reason,
                   const JsonLimits& limits = kAnyValue) {
  const absl::Status status = CheckJsonObject(json, limits);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << json.substr(0, 100);
  EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(reason))) << json.substr(0, 100);
}

std::string Nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

// An object with `keys` keys, each followed by `value`.
std::string ObjectOf(std::size_t keys, std::string_view value) {
  std::string json = "{";
  for (std::size_t i = 0; i < keys; ++i) {
    json += fmt::format("{}\"{}\":{}", i > 0 ? "," : "", i, value);
  }
  return json + "}";
}

TEST(JsonCheckTest, StrictJsonIsTaken) {
  for (const char* const json :
       {"{}", " {\n} ", R"({"a":[1,-0,0.5,1e5,1E+5,2e-3,true,false,null,"",{},[]]})",
        R"({"a":{"a":{"a":1}},"b":{"a":1}})", R"({"\u00e9\ud83d\ude00\"\\\/\b\f\n\r\t":"é😀"})",
        "{\"a\":\"\x7f\"}"}) {
    EXPECT_TRUE(CheckJsonObject(json).ok()) << json << CheckJsonObject(json);
  }
  for (const char* const json : {"[]", "1", "\"a\"", "null", " 0 "}) {
    EXPECT_TRUE(CheckJsonObject(json, kAnyValue).ok()) << json;
  }
}

TEST(JsonCheckTest, DocumentMustBeAnObjectUnlessAnyValueIsAllowed) {
  for (const char* const json : {"", " ", "[]", "1", "null", "\"{}\""}) {
    ExpectRefused(json, "must be an object", JsonLimits{});
  }
}

TEST(JsonCheckTest, WhatIsNotJsonIsRefusedWithItsPlace) {
  ExpectRefused("", "byte 0: the document ends too early");
  ExpectRefused("{", "expected a key");
  ExpectRefused("[", "ends too early");
  ExpectRefused("[1", "expected , or ]");
  ExpectRefused("[1 2]", "byte 3: expected , or ]");
  ExpectRefused("[1}", "expected , or ]");
  ExpectRefused("[1,]", "expected a value");
  ExpectRefused("[,1]", "expected a value");
  ExpectRefused("{\"a\"}", "expected : after a key");
  ExpectRefused("{\"a\":}", "expected a value");
  ExpectRefused("{\"a\":1,}", "expected a key");
  ExpectRefused("{a:1}", "expected a key");
  ExpectRefused("{'a':1}", "expected a key");
  ExpectRefused("{\"a\":1]", "expected , or }");
  ExpectRefused("{} {}", "byte 3: the document goes on");
  ExpectRefused("[1]]", "goes on");
  ExpectRefused("// comment\n1", "expected a value");
  ExpectRefused("\xEF\xBB\xBF{}", "expected a value");
  ExpectRefused("True", "expected a value");
  ExpectRefused("nul", "expected a value");
  ExpectRefused(std::string_view("{}\0", 3), "goes on");
}

TEST(JsonCheckTest, NumbersAreThoseOfTheStandard) {
  for (const char* const json : {"+1", ".5", "-", "-a", "NaN", "Infinity", "-Infinity", "0x10"}) {
    EXPECT_FALSE(CheckJsonObject(json, kAnyValue).ok()) << json;
  }
  ExpectRefused("01", "goes on");
  ExpectRefused("1.", "after the decimal point");
  ExpectRefused("1.e5", "after the decimal point");
  ExpectRefused("1e", "exponent");
  ExpectRefused("1e+-5", "exponent");
}

TEST(JsonCheckTest, FloatMustFitADoubleAndAnIntegerNeedNot) {
  EXPECT_TRUE(CheckJsonObject("1.7976931348623157e308", kAnyValue).ok());
  EXPECT_TRUE(CheckJsonObject("-1e-400", kAnyValue).ok());
  EXPECT_TRUE(CheckJsonObject("0.000e999999999999999999999", kAnyValue).ok());
  EXPECT_TRUE(CheckJsonObject("1e-99999999999999999999", kAnyValue).ok());
  EXPECT_TRUE(CheckJsonObject("0." + std::string(400, '0') + "1e400", kAnyValue).ok());
  ExpectRefused("1e400", "too large for a double");
  ExpectRefused("-1e309", "too large for a double");
  ExpectRefused("1e99999999999999999999", "too large for a double");
  ExpectRefused(std::string(400, '9') + ".0", "too large for a double");
  EXPECT_TRUE(CheckJsonObject("-" + std::string(400, '9'), kAnyValue).ok());
  ExpectRefused(std::string(401, '9'), "more than 400 digits");
}

TEST(JsonCheckTest, StringsAreUtf8WithoutNulAndHalfSurrogates) {
  ExpectRefused("\"a", "does not end");
  ExpectRefused("\"a\\\"", "does not end");
  ExpectRefused("\"a\nb\"", "must be escaped");
  ExpectRefused(std::string_view("\"a\0b\"", 5), "must be escaped");
  ExpectRefused("\"\xFF\"", "not UTF-8");
  ExpectRefused("\"\xC0\x80\"", "not UTF-8");
  ExpectRefused("\"\xED\xA0\x80\"", "not UTF-8");
  ExpectRefused("\"\xF0\x9F\x98\"", "not UTF-8");
  ExpectRefused(R"("\x41")", "unknown escape");
  ExpectRefused(R"("\u12g4")", "unknown escape");
  ExpectRefused(R"("\u12)", "unknown escape");
  ExpectRefused(R"("\)", "unknown escape");
  ExpectRefused(R"("\u0000")", "U+0000");
  ExpectRefused(R"({"\u0000":1})", "U+0000");
  ExpectRefused(R"("\ud800")", "half a surrogate pair");
  ExpectRefused(R"("\ud800\u0041")", "half a surrogate pair");
  ExpectRefused(R"("\udc00\ud800")", "half a surrogate pair");
}

TEST(JsonCheckTest, KeyMayNotBeThereTwice) {
  ExpectRefused(R"({"a":1,"b":2,"a":3})", "key twice");
  ExpectRefused(R"({"a":1,"\u0061":2})", "key twice");
  ExpectRefused(R"([{"x":{"":1,"":1}}])", "key twice");
}

TEST(JsonCheckTest, LimitsHoldAtTheirEdge) {
  EXPECT_TRUE(CheckJsonObject(Nested(64), kAnyValue).ok());
  ExpectRefused(Nested(65), "nested deeper than 64");
  ExpectRefused(std::string(4'000'000, '['), "nested deeper than 64");

  EXPECT_TRUE(CheckJsonObject(ObjectOf(1000, "0")).ok());
  ExpectRefused(ObjectOf(1001, "0"), "more than 1000 keys");
  EXPECT_TRUE(CheckJsonObject(ObjectOf(100, ObjectOf(99, "0"))).ok());
  ExpectRefused(ObjectOf(100, ObjectOf(100, "0")), "more than 10000 keys in all");

  EXPECT_TRUE(CheckJsonObject("{\"" + std::string(1024, 'k') + "\":0}").ok());
  ExpectRefused("{\"" + std::string(1025, 'k') + "\":0}", "longer than 1024 bytes");
}

}  // namespace
}  // namespace memoryd
