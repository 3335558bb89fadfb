#include "server/access/tenant_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "core/model/session_config.h"

namespace memoryd {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

auto Parse(const std::string& yaml) { return ParseTenants(YAML::Load(yaml), "/m.yaml"); }

void ExpectRefused(const std::string& yaml, int line, const std::string& word) {
  const auto parsed = Parse(yaml);
  ASSERT_TRUE(absl::IsInvalidArgument(parsed.status())) << yaml;
  const std::string message(parsed.status().message());
  EXPECT_THAT(message, StartsWith("/m.yaml:" + std::to_string(line) + ": tenants: ")) << yaml;
  EXPECT_THAT(message, HasSubstr(word));
}

TEST(TenantLimitsTest, WhatATenantDoesNotSayIsTheUsual) {
  const auto parsed =
      Parse("- {name: a, calls_per_second: 5}\n- {name: b, calls_in_flight: 0, watches: 7}\n");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const TenantLimitTable table{.usual = {.calls_per_second = 1, .calls_in_flight = 2},
                               .exceptions = *parsed};
  EXPECT_EQ(table.Of("a").calls_per_second, 5);
  EXPECT_EQ(table.Of("a").calls_in_flight, 2);
  EXPECT_EQ(table.Of("b").calls_per_second, 1);
  EXPECT_EQ(table.Of("b").calls_in_flight, 0);
  EXPECT_EQ(table.Of("b").watches, 7);
  EXPECT_EQ(table.Of("c").watches, kUsualWatches);
  EXPECT_EQ(table.Of("c").calls_in_flight, 2);
  EXPECT_TRUE(Parse("")->empty());
}

TEST(TenantLimitsTest, QuotasAreInMebibytesAndOverTheUsual) {
  const auto parsed = Parse("- {name: a, sessions: 5, mib: 3}\n- {name: b, messages: 0}\n");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const TenantLimitTable table{.usual = {.sessions = 1, .messages = 2}, .exceptions = *parsed};
  EXPECT_EQ(table.Of("a").quota().sessions, 5);
  EXPECT_EQ(table.Of("a").quota().messages, 2);
  EXPECT_EQ(table.Of("a").quota().bytes, 3 << 20);
  EXPECT_EQ(table.Of("b").quota().messages, 0);
  EXPECT_EQ(table.Of("b").quota().bytes, 0);
}

TEST(TenantLimitsTest, ATemplateIsOverTheUsualAndAnEmptyOneIsNone) {
  const auto parsed = Parse(
      "- {name: a, default_template: chat}\n"
      "- {name: b, default_template: ''}\n- {name: c, messages: 1}\n");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const TenantLimitTable table{.usual = {.default_template = "usual"}, .exceptions = *parsed};
  for (const auto& [tenant, name] : {std::pair("a", "chat"), std::pair("b", ""),
                                     std::pair("c", "usual"), std::pair("d", "usual")}) {
    EXPECT_EQ(table.DefaultTemplateOf(tenant), name);
    EXPECT_EQ(table.Of(tenant).default_template, name);
  }
}

TEST(TenantLimitsTest, ATenantMayUseTheTemplatesOfItsList) {
  const auto parsed = Parse("- {name: a, templates: [chat, x]}\n- {name: b, templates: []}\n");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const TenantLimitTable table{.usual = {}, .exceptions = *parsed};
  EXPECT_TRUE(table.MayUseTemplate("a", "chat"));
  EXPECT_FALSE(table.MayUseTemplate("a", "other"));
  EXPECT_FALSE(table.MayUseTemplate("b", "chat"));
  EXPECT_TRUE(table.MayUseTemplate("c", "chat"));
}

TEST(TenantLimitsTest, RetentionIsOverTheUsualAndZeroIsNone) {
  const auto parsed = Parse(
      "- {name: a, session_ttl_s: 60, refresh_on_read: true}\n"
      "- {name: b, keep_messages: 0, message_ttl_s: 5, keep_bytes: 8}\n");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const TenantLimitTable table{.usual = {.keep_messages = 7}, .exceptions = *parsed};
  EXPECT_EQ(table.Of("a").retention(), (RetentionSettings{60'000'000, true, 7, {}}));
  EXPECT_EQ(table.Of("b").retention(), (RetentionSettings{{}, {}, {}, 5'000'000, 8}));
  EXPECT_EQ(table.Of("c").retention(), (RetentionSettings{{}, {}, 7, {}}));
}

TEST(TenantLimitsTest, BudgetsAreOverTheUsual) {
  const auto parsed = Parse(
      "- {name: a, model_tokens_per_day: 5}\n"
      "- {name: b, model_calls_per_day: 0}\n");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const TenantLimitTable table{.usual = {.model_tokens_per_day = 1, .model_calls_per_day = 2},
                               .exceptions = *parsed};
  EXPECT_EQ(table.Of("a").model_budget(), (ModelBudget{5, 2}));
  EXPECT_EQ(table.Of("b").model_budget(), (ModelBudget{1, 0}));
  EXPECT_EQ(table.Of("c").model_budget(), (ModelBudget{1, 2}));
}

TEST(TenantLimitsTest, WhatIsWrongIsNamedWithItsLine) {
  ExpectRefused("a: 1", 1, "list");
  ExpectRefused("- a", 1, "maps");
  ExpectRefused("- name: a\n  calls_per_second: -1", 2, "calls_per_second: must be");
  ExpectRefused("- name: a\n  calls_in_flight: many", 2, "calls_in_flight: must be");
  ExpectRefused("- name: a\n  calls_in_flight: [1]", 2, "single value");
  ExpectRefused("- name: a\n  mib: 1.5", 2, "mib: must be");
  ExpectRefused("- name: a\n  session_ttl_s: 315360001", 2, "session_ttl_s: must be");
  ExpectRefused("- name: a\n  refresh_on_read: 1", 2, "refresh_on_read: must be");
  ExpectRefused("- name: a\n  model_calls_per_day: -1", 2, "model_calls_per_day: must be");
  ExpectRefused("- name: a\n  model_tokens_per_day: 1e6", 2, "model_tokens_per_day: must be");
  ExpectRefused("- name: a\n  calls: 1", 2, "unknown key calls");
  ExpectRefused("- name: a\n  templates: chat", 2, "templates: must be a list of names");
  ExpectRefused("- name: a\n  templates:\n    - [b]", 3, "templates: must be a list of names");
  ExpectRefused("- name: a\n  templates: [~]", 2, "templates: must be a list of names");
  ExpectRefused("- name: a\n  ~: 1", 2, "a key must be a text");
  ExpectRefused("- calls_in_flight: 1", 1, "name: is missing");
  ExpectRefused("- name: a\n- name: a", 2, "same");
  ExpectRefused("- name: a\n  name: b", 2, "twice");
  ExpectRefused("- name: ''", 1, "name");
}

}  // namespace
}  // namespace memoryd
