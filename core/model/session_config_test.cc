#include "core/model/session_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/error.h"
#include "core/model/ranking_options.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

SessionConfig MustResolve(const SessionSettings& settings) {
  const auto config = SessionConfig::Resolve(settings);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.value_or(SessionConfig());
}

void ExpectInvalid(const SessionSettings& settings, const std::string& field) {
  const absl::Status status = SessionConfig::Resolve(settings).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << field;
  EXPECT_THAT(ErrorDetails(status), ElementsAre(Pair("field", field)));
}

SessionSettings Everything() {
  SessionSettings settings;
  settings.profile = Profile::kLlamaIndex;
  settings.token_limit = 50;
  settings.token_flush_size = 10;
  settings.chat_history_token_ratio = 0.1 + 0.2;
  settings.insert_method = InsertMethod::kUser;
  settings.tokenizer = "o200k_base";
  settings.policy = PolicyKind::kBuffer;
  settings.feed = FeedTime::kAfterCommit;
  settings.image_token_count = 1;
  settings.retention = {60'000'000, true, 100, 3'600'000'000, 5};
  settings.audio_token_count = 0;
  settings.video_token_count = 3;
  settings.document_token_count = 4;
  settings.subject = "user 7";
  settings.time_zone = "UTC";
  settings.cut_highest_first = false;
  settings.template_name = "chat";
  settings.ranking = {.bm25_k1 = 1.2,
                      .bm25_b = 0.75,
                      .vector_weight = 0,
                      .vector_threshold = -0.5,
                      .author_weight = 0.1,
                      .neighbour_weight = 0.3,
                      .neighbour_tokens = 200,
                      .answer_factor = 1.5,
                      .thread_weight = 0.1,
                      .length_weight = 0.4,
                      .length_tokens = 50,
                      .user_weight = 0.5,
                      .recency_weight = 0.05,
                      .expansion = true,
                      .dates = false,
                      .embedder = "minilm",
                      .embedder_worker = "agent",
                      .embedder_weight = 0.7,
                      .language = "de"};
  return settings;
}

TEST(SessionConfigTest, WithoutSettingsTheDefaultsOfProfileDefaultHold) {
  const SessionConfig config = MustResolve({});
  EXPECT_EQ(config, SessionConfig());
  EXPECT_EQ(config.counting.profile, Profile::kDefault);
  EXPECT_EQ(config.counting.tokenizer, "cl100k_base");
  EXPECT_EQ(config.token_limit, 30000);
  EXPECT_EQ(config.token_flush_size, 3000);
  EXPECT_EQ(config.feed, FeedTime::kAfterCommit);
}

TEST(SessionConfigTest, ProfileLlamaIndexFeedsBeforeTheReply) {
  SessionSettings settings;
  settings.profile = Profile::kLlamaIndex;
  EXPECT_EQ(MustResolve(settings).feed, FeedTime::kBeforeReply);
}

TEST(SessionConfigTest, EverySettingReachesTheConfiguration) {
  const SessionConfig config = MustResolve(Everything());
  EXPECT_EQ(config.counting.profile, Profile::kLlamaIndex);
  EXPECT_EQ(config.counting.tokenizer, "o200k_base");
  EXPECT_EQ(config.counting.image_token_count, 1);
  EXPECT_EQ(config.counting.audio_token_count, 0);
  EXPECT_EQ(config.counting.video_token_count, 3);
  EXPECT_EQ(config.counting.document_token_count, 4);
  EXPECT_EQ(config.token_limit, 50);
  EXPECT_EQ(config.token_flush_size, 10);
  EXPECT_EQ(config.chat_history_token_ratio, 0.1 + 0.2);
  EXPECT_EQ(config.insert_method, InsertMethod::kUser);
  EXPECT_EQ(config.policy, PolicyKind::kBuffer);
  EXPECT_EQ(config.retention, (Retention{60'000'000, true, 100, 3'600'000'000, 5}));
  EXPECT_EQ(config.feed, FeedTime::kAfterCommit);
  const RankingOptions ranking = {.bm25_k1 = 1.2,
                                  .bm25_b = 0.75,
                                  .vector_weight = 0,
                                  .vector_threshold = -0.5,
                                  .author_weight = 0.1,
                                  .neighbour_weight = 0.3,
                                  .neighbour_tokens = 200,
                                  .answer_factor = 1.5,
                                  .thread_weight = 0.1,
                                  .length_weight = 0.4,
                                  .length_tokens = 50,
                                  .user_weight = 0.5,
                                  .recency_weight = 0.05,
                                  .expansion = true,
                                  .dates = false,
                                  .language = "de",
                                  .zone = absl::UTCTimeZone(),
                                  .embedder = "minilm",
                                  .embedder_worker = "agent",
                                  .embedder_weight = 0.7};
  EXPECT_EQ(config.ranking, ranking);
  EXPECT_EQ(config.time_zone, "UTC");
  EXPECT_FALSE(config.cut_highest_first);
}

TEST(SessionConfigTest, BlocksAreCutInTheOrderOfTheProfile) {
  SessionSettings settings;
  EXPECT_TRUE(MustResolve(settings).cut_highest_first);
  settings.profile = Profile::kLlamaIndex;
  EXPECT_FALSE(MustResolve(settings).cut_highest_first);
  settings.cut_highest_first = true;
  EXPECT_TRUE(MustResolve(settings).cut_highest_first);
}

TEST(SessionConfigTest, AnEmbedderLeavesLessToTheVectorsOfWords) {
  SessionSettings settings;
  EXPECT_EQ(MustResolve(settings).ranking.vector_weight, 0.6);
  EXPECT_FALSE(MustResolve(settings).EmbedsMessages());
  settings.ranking.embedder = "minilm";
  EXPECT_EQ(MustResolve(settings).ranking.vector_weight, kVectorWeightBesideEmbedder);
  EXPECT_TRUE(MustResolve(settings).EmbedsMessages());
  settings.ranking.vector_weight = 0.6;
  EXPECT_EQ(MustResolve(settings).ranking.vector_weight, 0.6);
  settings.profile = Profile::kAutogenList;
  EXPECT_FALSE(MustResolve(settings).EmbedsMessages());
  settings.ranking.embedder = "";
  settings.ranking.embedder_worker = "agent";
  ExpectInvalid(settings, "config.retrieval.embedder_worker");
}

TEST(SessionConfigTest, ALanguageIsACodeThatIsKnown) {
  SessionSettings settings;
  for (const char* code : {"de", "zh", ""}) {
    settings.ranking.language = code;
    EXPECT_EQ(MustResolve(settings).ranking.language, code);
  }
  for (const char* code : {"xx", "DE", "german"}) {
    settings.ranking.language = code;
    ExpectInvalid(settings, "config.retrieval.language");
  }
}

TEST(SessionConfigTest, AWeightBeyondItsRangeNamesItsField) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto refused = [](const std::string& field, std::optional<double> RankingSettings::*weight,
                          double value) {
    SessionSettings settings;
    settings.ranking.*weight = value;
    ExpectInvalid(settings, "config.retrieval." + field);
  };
  refused("bm25_k1", &RankingSettings::bm25_k1, -0.1);
  refused("bm25_b", &RankingSettings::bm25_b, 1.01);
  refused("vector_weight", &RankingSettings::vector_weight, kNan);
  refused("vector_threshold", &RankingSettings::vector_threshold, 1.1);
  refused("author_weight", &RankingSettings::author_weight, 10.1);
  refused("neighbour_weight", &RankingSettings::neighbour_weight, 1.1);
  refused("neighbour_tokens", &RankingSettings::neighbour_tokens, -1);
  refused("answer_factor", &RankingSettings::answer_factor, 10.1);
  refused("thread_weight", &RankingSettings::thread_weight, 1.1);
  refused("length_weight", &RankingSettings::length_weight, -1);
  refused("length_tokens", &RankingSettings::length_tokens, 0);
  refused("user_weight", &RankingSettings::user_weight, 11);
  refused("embedder_weight", &RankingSettings::embedder_weight, -1);
  refused("recency_weight", &RankingSettings::recency_weight,
          std::numeric_limits<double>::infinity());
  SessionSettings edge;
  edge.ranking.bm25_k1 = 10;
  edge.ranking.bm25_b = 0;
  edge.ranking.vector_threshold = -1;
  edge.ranking.neighbour_weight = 1;
  edge.ranking.neighbour_tokens = 1e6;
  edge.ranking.length_tokens = 1;
  EXPECT_EQ(MustResolve(edge).ranking.bm25_k1, 10);
}

TEST(SessionConfigTest, TheFlushSizeOfDefaultIsATenthOfTheLimitAndAtLeastOne) {
  SessionSettings settings;
  for (const auto& [limit, flush] : {std::pair(5, 1), std::pair(99, 9), std::pair(1000, 100)}) {
    settings.token_limit = limit;
    EXPECT_EQ(MustResolve(settings).token_flush_size, flush);
  }
}

TEST(SessionConfigTest, LlamaIndexTakesATenthForAFlushSizeItCannotUse) {
  SessionSettings settings;
  settings.profile = Profile::kLlamaIndex;
  settings.token_limit = 100;
  for (const auto& [given, flush] : {std::pair(-5, 10), std::pair(0, 10), std::pair(1, 1),
                                     std::pair(100, 100), std::pair(101, 10)}) {
    settings.token_flush_size = given;
    EXPECT_EQ(MustResolve(settings).token_flush_size, flush) << given;
  }
  settings.token_limit = 9;
  settings.token_flush_size.reset();
  EXPECT_EQ(MustResolve(settings).token_flush_size, 0);
}

TEST(SessionConfigTest, ValuesOutOfRangeNameTheirField) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  for (const std::int64_t limit : {std::int64_t{0}, std::int64_t{-1}, kMax + 1}) {
    SessionSettings settings;
    settings.token_limit = limit;
    ExpectInvalid(settings, "config.token_limit");
  }
  for (const std::int64_t flush : {0, -1, 30001}) {
    SessionSettings settings;
    settings.token_flush_size = flush;
    ExpectInvalid(settings, "config.token_flush_size");
  }
  for (const double ratio : {-0.01, 1.01, std::nan(""), std::numeric_limits<double>::infinity()}) {
    SessionSettings settings;
    settings.chat_history_token_ratio = ratio;
    ExpectInvalid(settings, "config.chat_history_token_ratio");
  }
  SessionSettings settings;
  settings.tokenizer = "gpt2";
  ExpectInvalid(settings, "config.tokenizer");
}

TEST(SessionConfigTest, EveryEstimateIsChecked) {
  using Field = std::optional<std::int64_t> SessionSettings::*;
  for (const auto& [field, name] :
       {std::pair<Field, std::string>(&SessionSettings::image_token_count, "image_token_count"),
        std::pair<Field, std::string>(&SessionSettings::audio_token_count, "audio_token_count"),
        std::pair<Field, std::string>(&SessionSettings::video_token_count, "video_token_count"),
        std::pair<Field, std::string>(&SessionSettings::document_token_count,
                                      "document_token_count")}) {
    SessionSettings settings;
    settings.*field = -1;
    ExpectInvalid(settings, "config." + name);
    settings.*field = 0;
    MustResolve(settings);
  }
}

TEST(SessionConfigTest, TheLimitsThemselvesAreAllowed) {
  SessionSettings settings;
  settings.token_limit = std::numeric_limits<std::int32_t>::max();
  settings.token_flush_size = settings.token_limit;
  settings.chat_history_token_ratio = 1;
  MustResolve(settings);
  settings.token_limit = 1;
  settings.token_flush_size = 1;
  settings.chat_history_token_ratio = 0;
  MustResolve(settings);
}

TEST(SessionConfigTest, RetentionHasARange) {
  constexpr std::int64_t kSecond = 1'000'000;
  constexpr std::int64_t kMost = std::int64_t{3650} * 24 * 3600 * kSecond;
  SessionSettings settings;
  EXPECT_EQ(MustResolve(settings).retention, Retention());
  for (const std::int64_t ttl_us :
       {std::int64_t{-1}, std::int64_t{1}, kSecond - 1, kMost + 1,
        std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    settings.retention = {ttl_us, {}, {}, {}};
    ExpectInvalid(settings, "config.retention.session_ttl");
    settings.retention = {{}, {}, {}, ttl_us};
    ExpectInvalid(settings, "config.retention.message_ttl");
  }
  settings.retention = {{}, {}, -1, {}};
  ExpectInvalid(settings, "config.retention.keep_messages");
  settings.retention = {{}, {}, {}, {}, -1};
  ExpectInvalid(settings, "config.retention.keep_bytes");
  for (const std::int64_t ttl_us : {std::int64_t{0}, kSecond, kMost}) {
    settings.retention = {ttl_us, true, 1, ttl_us};
    EXPECT_EQ(MustResolve(settings).retention, (Retention{ttl_us, true, 1, ttl_us}));
  }
}

TEST(SessionConfigTest, TimesAreRoundedUpToASixteenth) {
  const Retention never;
  EXPECT_EQ(never.ExpiryAt(5), 0);
  EXPECT_EQ(never.DropAt(5), 0);
  const Retention retention{.session_ttl_us = 16'000'000, .message_ttl_us = 1'000'001};
  EXPECT_EQ(retention.ExpiryAt(0), 16'000'000);
  EXPECT_EQ(retention.ExpiryAt(1), 17'000'000);
  EXPECT_EQ(retention.ExpiryAt(1'000'000), 17'000'000);
  for (std::int64_t at = 0; at < 200'000; at += 997) {
    EXPECT_GE(retention.DropAt(at), at + 1'000'001);
    EXPECT_LT(retention.DropAt(at), at + 1'000'001 + 62'501);
  }
}

TEST(SessionSettingsTest, JsonKeepsWhatIsSetAndNothingElse) {
  EXPECT_EQ(SessionSettings().ToJson(), "{}");
  for (const SessionSettings& settings : {SessionSettings(), Everything()}) {
    const auto read = SessionSettings::FromJson(settings.ToJson());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, settings);
  }
}

TEST(SessionSettingsTest, WhatToJsonDidNotWriteIsDataLoss) {
  for (const char* json : {"", "[]", "null", "{", R"({"token_limit":"x"})", R"({"unknown":1})"}) {
    EXPECT_TRUE(absl::IsDataLoss(SessionSettings::FromJson(json).status())) << json;
  }
}

// So that a server can be set back to this version.
TEST(SessionSettingsTest, HowALaterVersionRanksIsLeftOut) {
  const auto read =
      SessionSettings::FromJson(R"({"retrieval.dates":false,"retrieval.later":[1],"subject":"s"})");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->ToJson(), R"({"retrieval.dates":false,"subject":"s"})");
}

// Versions that know no language read it then.
TEST(SessionSettingsTest, AnEmptyLanguageIsNotStored) {
  SessionSettings german;
  german.ranking.language = "de";
  SessionSettings none;
  none.ranking.language = "";
  EXPECT_EQ(none.ToJson(), "{}");
  const SessionSettings merged = german.With(none);
  EXPECT_EQ(merged.ToJson(), "{}");
  EXPECT_EQ(MustResolve(merged).ranking.language, "");
  EXPECT_EQ(german.With({}).ranking.language, "de");
}

TEST(SessionSettingsTest, ChangesCoverWhatTheySetAndLeaveTheRest) {
  SessionSettings changes;
  changes.token_limit = 70;
  changes.audio_token_count = 9;
  SessionSettings expected = Everything();
  expected.token_limit = 70;
  expected.audio_token_count = 9;
  EXPECT_EQ(Everything().With(changes), expected);
  EXPECT_EQ(Everything().With({}), Everything());
  EXPECT_EQ(SessionSettings().With(Everything()), Everything());
}

TEST(SessionConfigTest, NamesAreReadAsTheyAreWritten) {
  for (const Profile profile : {Profile::kDefault, Profile::kLlamaIndex}) {
    EXPECT_EQ(ParseProfile(ProfileName(profile)), profile);
  }
  for (const PolicyKind policy : {PolicyKind::kFifo, PolicyKind::kBuffer}) {
    EXPECT_EQ(ParsePolicy(PolicyName(policy)), policy);
  }
  EXPECT_EQ(ParseProfile("Default"), std::nullopt);
  EXPECT_EQ(ParsePolicy(""), std::nullopt);
}

}  // namespace
}  // namespace memoryd
