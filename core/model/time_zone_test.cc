#include "core/model/time_zone.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/model/session_config.h"

namespace memoryd {
namespace {

constexpr std::int64_t kTime = 1'680'130'800'000'000;  // 2023-03-29T23:00:00Z

class TimeZoneTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { UseZoneFiles(MEMORYD_TEST_ZONE_DIR); }
};

TEST_F(TimeZoneTest, KnowsTheZonesOfTheWorld) {
  for (const char* const name :
       {"UTC", "Asia/Tokyo", "Europe/Lisbon", "America/Argentina/Buenos_Aires", "Etc/GMT+8",
        "Asia/Kolkata", "Pacific/Chatham", "US/Pacific"}) {
    EXPECT_TRUE(FindTimeZone(name).ok()) << name;
  }
}

TEST_F(TimeZoneTest, RefusesWhatNamesNone) {
  for (const std::string& name :
       {std::string(), std::string("Mars/Olympus"), std::string("asia/tokyo "),
        std::string("/etc/localtime"), std::string("../zoneinfo/UTC"), std::string("Asia"),
        std::string("localtime:"), std::string("Fixed/UTC+05:30:00"), std::string("libc:localtime"),
        std::string("UTC\0x", 5), std::string(65, 'a')}) {
    EXPECT_EQ(FindTimeZone(name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

TEST_F(TimeZoneTest, WritesTimesInTheZone) {
  const absl::TimeZone tokyo = FindTimeZone("Asia/Tokyo").value();
  EXPECT_EQ(TimeText(kTime, tokyo), "Thursday, 2023-03-30 08:00");
  EXPECT_EQ(DayText(kTime, tokyo), "Thursday, 2023-03-30");
  EXPECT_EQ(DateText(kTime, tokyo), "2023-03-30");
  EXPECT_EQ(DateText(kTime, absl::UTCTimeZone()), "2023-03-29");
  EXPECT_EQ(DayWords(kTime, tokyo), "30 March 2023");
  EXPECT_EQ(DayWords(kTime, absl::UTCTimeZone()), "29 March 2023");
  EXPECT_EQ(DayWords(1'683'504'000'000'000, absl::UTCTimeZone()), "8 May 2023");
  // Summer time begins on 26 March in Lisbon.
  EXPECT_EQ(TimeText(kTime, FindTimeZone("Europe/Lisbon").value()), "Thursday, 2023-03-30 00:00");
}

TEST_F(TimeZoneTest, IsPartOfAConfiguration) {
  SessionSettings settings;
  EXPECT_EQ(SessionConfig::Resolve(settings)->time_zone, "UTC");
  settings.time_zone = "Asia/Tokyo";
  const SessionConfig config = SessionConfig::Resolve(settings).value();
  EXPECT_EQ(config.time_zone, "Asia/Tokyo");
  EXPECT_EQ(config.ranking.zone.name(), "Asia/Tokyo");
  EXPECT_EQ(SessionSettings::FromJson(settings.ToJson()).value(), settings);
  EXPECT_EQ(CheckTimeZone(settings).code(), absl::StatusCode::kOk);
  settings.time_zone = "Mars/Olympus";
  EXPECT_EQ(CheckTimeZone(settings).code(), absl::StatusCode::kInvalidArgument);
  // A session that another server stored, which knows more zones, is still read.
  EXPECT_EQ(SessionConfig::Resolve(settings)->ranking.zone, absl::UTCTimeZone());
  EXPECT_EQ(SessionConfig::Resolve(settings)->time_zone, "Mars/Olympus");
}

}  // namespace
}  // namespace memoryd
