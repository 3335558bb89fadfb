#include "core/tokens/python_repr.h"

#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace memoryd {
namespace {

std::string Repr(const std::string& json) {
  const auto repr = PythonRepr(json);
  EXPECT_TRUE(repr.ok()) << json << ": " << repr.status();
  return repr.ok() ? *repr : "";
}

TEST(PythonReprTest, ContainersKeepTheirOrder) {
  EXPECT_EQ(Repr(R"({"k":"it's","f":2.0,"n":null,"t":true,"l":[1,"é"]})"),
            R"({'k': "it's", 'f': 2.0, 'n': None, 't': True, 'l': [1, 'é']})");
  EXPECT_EQ(Repr(R"({"b":{"z":1,"a":[]},"a":{},"c":[[],[false]]})"),
            "{'b': {'z': 1, 'a': []}, 'a': {}, 'c': [[], [False]]}");
}

TEST(PythonReprTest, IntegersKeepAllDigitsAndStayIntegers) {
  EXPECT_EQ(Repr("[0, -0, 7, -12, 18446744073709551616]"), "[0, 0, 7, -12, 18446744073709551616]");
  EXPECT_EQ(Repr(std::string(400, '9')), std::string(400, '9'));
}

TEST(PythonReprTest, FloatsAreShortestAndLaidOutAsPythons) {
  EXPECT_EQ(Repr("[1.0, -0.0, 0.1, 1.50, 1e2, 100.25, 1E+2]"),
            "[1.0, -0.0, 0.1, 1.5, 100.0, 100.25, 100.0]");
  EXPECT_EQ(Repr("[1e15, 1e16, 9999999999999998.0, 123456789012345680.0]"),
            "[1000000000000000.0, 1e+16, 9999999999999998.0, 1.2345678901234568e+17]");
  EXPECT_EQ(Repr("[1e-4, 0.00012, 1e-5, 1.5e-7, 1e22, 1e23]"),
            "[0.0001, 0.00012, 1e-05, 1.5e-07, 1e+22, 1e+23]");
  EXPECT_EQ(Repr("[5e-324, 1.7976931348623157e308, 1e-400, -1e-400, 0e999]"),
            "[5e-324, 1.7976931348623157e+308, 0.0, -0.0, 0.0]");
}

TEST(PythonReprTest, QuoteIsSingleUnlessOnlySinglesAreInside) {
  EXPECT_EQ(Repr(R"(["a", "it's", "say \"hi\"", "it's \"so\"", "\\"])"),
            R"(['a', "it's", 'say "hi"', 'it\'s "so"', '\\'])");
}

TEST(PythonReprTest, UnprintableCharactersAreEscaped) {
  EXPECT_EQ(Repr(R"(["\n\r\t\b\u001f\u007f\u0080\u00a0\u00ad"])"),
            R"(['\n\r\t\x08\x1f\x7f\x80\xa0\xad'])");
  EXPECT_EQ(Repr(R"(["\u0378\u200b\u2028\u3000\ue000\ufeff\uffff"])"),
            R"(['\u0378\u200b\u2028\u3000\ue000\ufeff\uffff'])");
  EXPECT_EQ(Repr(R"(["\udb40\udc01\udb40\udd00\udbff\udfff"])"),
            "['\\U000e0001\U000E0100\\U0010ffff']");
  EXPECT_EQ(Repr("[\"¡é中😀\"]"), "['¡é中😀']");
}

TEST(PythonReprTest, StringAtTopLevelIsItself) {
  EXPECT_EQ(Repr(R"("it's\n")"), "it's\n");
  EXPECT_EQ(Repr("null"), "None");
}

TEST(PythonReprTest, WhatIsNotJsonIsRefused) {
  for (const char* const json :
       {"", "{", "{'a': 1}", "[1,]", "NaN", "[1e400]", "{\"a\":1,\"a\":2}"}) {
    EXPECT_EQ(PythonRepr(json).status().code(), absl::StatusCode::kInvalidArgument) << json;
  }
}

}  // namespace
}  // namespace memoryd
