#include "server/access/settings_in_force.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/model/session_config.h"
#include "core/model/session_template.h"
#include "server/access/session_templates.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;

SessionTemplates Named(const std::vector<std::string>& names) {
  SessionTemplates templates;
  for (const std::string& name : names) {
    SessionSettings settings;
    settings.template_name = name;
    templates[name] = std::make_shared<const SessionTemplate>(SessionTemplate{name, settings});
  }
  return templates;
}

// The name of the template; empty: none.
std::string NameFor(const TenantSettings& settings, std::string_view tenant,
                    std::string_view asked) {
  const auto found = settings.DefaultsFor(tenant, asked);
  EXPECT_TRUE(found.ok()) << found.status();
  return !found.ok() || found->from == nullptr ? "" : found->from->name;
}

std::string ErrorFor(const TenantSettings& settings, std::string_view tenant,
                     std::string_view asked) {
  const absl::Status status = settings.DefaultsFor(tenant, asked).status();
  EXPECT_EQ(ErrorReason(status), "INVALID_FIELD");
  return std::string(status.message());
}

TEST(TenantSettingsTest, ANameGoesBeforeTheTenantsOwn) {
  TenantSettings settings{{}, Named({"a", "b"})};
  settings.tenants.usual.default_template = "a";
  settings.tenants.exceptions["plain"].default_template = "";
  settings.tenants.exceptions["b"].default_template = "b";
  EXPECT_EQ(NameFor(settings, "t", ""), "a");
  EXPECT_EQ(NameFor(settings, "t", "b"), "b");
  EXPECT_EQ(NameFor(settings, "b", ""), "b");
  EXPECT_EQ(NameFor(settings, "plain", ""), "");
  EXPECT_EQ(NameFor(settings, "plain", "a"), "a");
  EXPECT_EQ(ErrorFor(settings, "t", "c"), "template: there is no such template; there are: a, b");
}

TEST(TenantSettingsTest, ATenantHearsOfThoseThatItMayUse) {
  TenantSettings settings{{}, Named({"a", "b", "c"})};
  settings.tenants.exceptions["some"].templates = {"c", "a"};
  settings.tenants.exceptions["none"].templates.emplace();
  EXPECT_EQ(NameFor(settings, "some", "a"), "a");
  EXPECT_EQ(ErrorFor(settings, "some", "b"),
            "template: there is no such template; there are: a, c");
  EXPECT_EQ(ErrorFor(settings, "none", "a"), "template: there is no such template; there are none");
  EXPECT_THAT(settings.TemplateNames("all"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(settings.TemplateNames("some"), ElementsAre("a", "c"));
  EXPECT_THAT(settings.TemplateNames("none"), ElementsAre());
}

TEST(TenantSettingsTest, RetentionIsTheTenantsWhateverTheTemplate) {
  TenantSettings settings{{}, Named({"a"})};
  settings.tenants.usual.keep_messages = 7;
  for (const std::string_view name : {"", "a"}) {
    const auto found = settings.DefaultsFor("t", name);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->retention.keep_messages, 7);
  }
}

TEST(SettingsInForceTest, WhoHasASnapshotKeepsIt) {
  SettingsInForce in_force({{}, Named({"a"})});
  const auto kept = in_force.Now();
  in_force.Replace({{}, Named({"b"})});
  EXPECT_THAT(kept->TemplateNames("t"), ElementsAre("a"));
  EXPECT_THAT(in_force.Now()->TemplateNames("t"), ElementsAre("b"));
}

}  // namespace
}  // namespace memoryd
