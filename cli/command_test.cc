#include "cli/command.h"

#include <gtest/gtest.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <string>
#include <vector>

#include "core/base/utf8_decode.h"

namespace memoryd::cli {
namespace {

TEST(AddRepeatable, TakesOneValueEachTime) {
  CLI::App app;
  std::string text;
  std::vector<std::string> roles;
  app.add_option("TEXT", text);
  AddRepeatable(app, "--role", roles, "A role.");
  // CLI11 takes them from the back.
  app.parse(std::vector<std::string>{"--role=b", "dog", "a", "--role"});
  EXPECT_EQ(text, "dog");
  EXPECT_EQ(roles, (std::vector<std::string>{"a", "b"}));
}

TEST(Between, TakesNumbersOfTheRangeAlone) {
  const CLI::Validator validator = Between(0.5, 3600);
  for (const char* const text : {"0.5", "1", "3600", "1e3"}) {
    EXPECT_EQ(validator(std::string(text)), "") << text;
  }
  for (const char* const text : {"0.4", "3601", "1e18", "inf", "nan", "-1", "x", "", "1s"}) {
    EXPECT_EQ(validator(std::string(text)), "must be 0.5 to 3600") << text;
  }
}

TEST(OneOf, TakesItsWordsAlone) {
  const CLI::Validator validator = OneOf({"open", "done"});
  EXPECT_EQ(validator(std::string("done")), "");
  EXPECT_EQ(validator(std::string("lost")), "must be one of open, done");
}

TEST(OfferedWords, AreThoseOfTheCheck) {
  CLI::App app;
  std::string text;
  EXPECT_EQ(OfferedWords(*app.add_option("--plain", text)), std::vector<std::string>());
  EXPECT_EQ(OfferedWords(*app.add_option("--state", text)->check(OneOf({"open", "done"}))),
            (std::vector<std::string>{"open", "done"}));
  EXPECT_EQ(OfferedWords(*app.add_option("--role", text)->check(Offering({"user"}))),
            std::vector<std::string>{"user"});
}

TEST(IsUtf8, IsStrict) {
  for (const char* const text : {"", "a", "\u00e4\u20ac\U0001F600", "\xEF\xBF\xBD"}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
  for (const char* const text : {"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80"}) {
    EXPECT_FALSE(IsUtf8(text)) << text;
  }
}

}  // namespace
}  // namespace memoryd::cli
