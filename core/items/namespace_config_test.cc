#include "core/items/namespace_config.h"

#include <gtest/gtest.h>

#include "absl/status/status.h"

namespace memoryd {
namespace {

TEST(NamespaceConfigTest, DefaultsAreStoredAsNothing) {
  EXPECT_EQ(NamespaceConfig().Encode(), "");
  EXPECT_EQ(*NamespaceConfig::FromStored("", 0, ""), NamespaceConfig());
}

TEST(NamespaceConfigTest, WhatIsStoredIsReadBack) {
  NamespaceConfig config;
  config.Apply({.subject = "ada", .ttl_us = 5, .refresh_ttl = false, .search = R"(["a.b","c"])"});
  EXPECT_EQ(*NamespaceConfig::FromStored("ada", 5, config.Encode()), config);
  EXPECT_EQ(config.search, R"(["a.b","c"])");
}

TEST(NamespaceConfigTest, AbsentFieldsStay) {
  NamespaceConfig config;
  config.Apply({.subject = "ada", .ttl_us = 5});
  config.Apply({.refresh_ttl = false});
  EXPECT_EQ(config.subject, "ada");
  EXPECT_EQ(config.ttl_us, 5);
  EXPECT_FALSE(config.refresh_ttl);
}

TEST(NamespaceConfigTest, NamesWhatDiffers) {
  NamespaceConfig config;
  config.Apply({.subject = "ada", .ttl_us = 5});
  EXPECT_EQ(config.DifferenceTo({}), "");
  EXPECT_EQ(config.DifferenceTo({.subject = "ada", .ttl_us = 5, .refresh_ttl = true}), "");
  EXPECT_EQ(config.DifferenceTo({.subject = "eve"}), "subject");
  EXPECT_EQ(config.DifferenceTo({.ttl_us = 6}), "default_ttl");
  EXPECT_EQ(config.DifferenceTo({.refresh_ttl = false}), "refresh_ttl");
  EXPECT_EQ(config.DifferenceTo({.search = "[]"}), "search");
}

TEST(NamespaceConfigTest, WhatCannotBeReadIsDataLoss) {
  for (const char* stored : {"{", "[]", "1", "\xff"}) {
    EXPECT_EQ(NamespaceConfig::FromStored("", 0, stored).status().code(),
              absl::StatusCode::kDataLoss)
        << stored;
  }
}

}  // namespace
}  // namespace memoryd
