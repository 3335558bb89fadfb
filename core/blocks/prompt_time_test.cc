#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "core/blocks/block.h"
#include "core/model/session_config.h"
#include "core/model/time_zone.h"
#include "tests/support/block_fixture.h"

namespace memoryd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kSaid = 1'684'922'400'000'000;  // 2023-05-24T10:00:00Z, a Wednesday.
constexpr std::int64_t kNow = 1'685'664'000'000'000;   // 2023-06-02T00:00:00Z, a Friday.

class PromptTimeTest : public testing::TestWithParam<std::string>, protected BlockFixture {
 protected:
  PromptTimeTest() { now_us = kNow; }

  static BlockMessage SaidAt(std::string text, std::int64_t time_us) {
    BlockMessage message = Text("user", std::move(text));
    message.parts.create_us = time_us;
    return message;
  }

  // What the model is asked about one message.
  std::string Asked(const std::string& options) {
    Make(GetParam(), options);
    models.chat->replies = {"Anna: went to Paris."};
    EXPECT_TRUE(Feed({SaidAt("I went to Paris last week.", kSaid)}).ok());
    return models.chat->Prompt(0);
  }

  // A caller's template under the name that the kind has for it.
  static std::string Options(const std::string& prompt) {
    const std::string name = GetParam() == "fact-extraction" ? "extraction_prompt" : "prompt";
    return R"({"model":"chat",")" + name + R"(":")" + prompt + "\"}";
  }
};

TEST_P(PromptTimeTest, OurPromptsSayWhenEachMessageWasSaidAndWhatDayItIs) {
  const std::string prompt = Asked(R"({"model":"chat"})");
  EXPECT_THAT(prompt, HasSubstr("role=\"user\" time=\"Wednesday, 2023-05-24 10:00\">I went"));
  EXPECT_THAT(prompt, HasSubstr("Today is Friday, 2023-06-02."));
  EXPECT_THAT(prompt, HasSubstr("the time zone UTC."));
  EXPECT_THAT(prompt, HasSubstr("become the dates that they mean"));
  EXPECT_THAT(prompt, Not(HasSubstr("{today}")));
}

TEST_P(PromptTimeTest, TimesAreThoseOfTheSessionsZone) {
  UseZoneFiles(MEMORYD_TEST_ZONE_DIR);
  session.zone = FindTimeZone("America/Los_Angeles").value();
  const std::string prompt = Asked(R"({"model":"chat"})");
  EXPECT_THAT(prompt, HasSubstr("time=\"Wednesday, 2023-05-24 03:00\""));
  EXPECT_THAT(prompt, HasSubstr("Today is Thursday, 2023-06-01."));
  EXPECT_THAT(prompt, HasSubstr("the time zone America/Los_Angeles."));
}

TEST_P(PromptTimeTest, ACallersTemplateStaysAsGiven) {
  EXPECT_EQ(Asked(Options("{messages} {now}")),
            "<message number=\"1\" role=\"user\">I went to Paris last week.</message>\n {now}");
}

TEST_P(PromptTimeTest, ACallersTemplateMayAskForTodayAndDates) {
  EXPECT_EQ(Asked(Options("{today} {time_zone}: {dated_messages}")),
            "Friday, 2023-06-02 UTC: <message number=\"1\" role=\"user\" "
            "time=\"Wednesday, 2023-05-24 10:00\">I went to Paris last week.</message>");
}

TEST_P(PromptTimeTest, ATextCannotFillInAPlaceholder) {
  Make(GetParam(), R"({"model":"chat"})");
  models.chat->replies = {""};
  ASSERT_TRUE(Feed({SaidAt("It is {today}.", kSaid)}).ok());
  EXPECT_THAT(models.chat->Prompt(0), HasSubstr(">It is {today}.</message>"));
}

INSTANTIATE_TEST_SUITE_P(Kinds, PromptTimeTest,
                         testing::Values("fact-extraction", "summary", "entity"),
                         [](const testing::TestParamInfo<std::string>& kind) {
                           return kind.param == "fact-extraction" ? "facts" : kind.param;
                         });

class CondensingTimeTest : public testing::Test, protected BlockFixture {};

TEST_F(CondensingTimeTest, ThePromptHasToday) {
  now_us = kNow;
  Make("fact-extraction", R"({"model":"chat","max_facts":1})");
  models.chat->replies = {"<fact>one</fact><fact>two</fact>", "<fact from=\"1,2\">both</fact>"};
  ASSERT_TRUE(Feed({Text("user", "hi")}).ok());
  EXPECT_THAT(models.chat->Prompt(1), HasSubstr("Today is Friday, 2023-06-02."));
}

class LibraryTimeTest : public testing::Test, protected BlockFixture {};

TEST_F(LibraryTimeTest, APromptOfALibraryStaysToTheByte) {
  now_us = kNow;
  Make("fact-extraction", R"({"model":"chat","extraction_prompt":"{today} {existing_facts}."})",
       Profile::kLlamaIndex);
  models.chat->replies = {"<fact>x</fact>"};
  ASSERT_TRUE(Feed({Text("user", "hi")}).ok());
  EXPECT_EQ(models.chat->Prompt(0), "{today} .");
}

}  // namespace
}  // namespace memoryd
