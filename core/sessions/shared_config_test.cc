#include "core/sessions/shared_config.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/model/session_config.h"

namespace memoryd {
namespace {

SessionConfig WithLimit(std::int64_t limit) {
  SessionConfig config;
  config.token_limit = limit;
  return config;
}

TEST(SharedConfigTest, SessionsAlikeHaveOne) {
  const auto a = SharedConfig("a", WithLimit(1));
  EXPECT_EQ(SharedConfig("a", WithLimit(1)), a);
  EXPECT_EQ(a->token_limit, 1);
  const auto b = SharedConfig("b", WithLimit(2));
  EXPECT_NE(a, b);
  EXPECT_EQ(b->token_limit, 2);
}

TEST(SharedConfigTest, OneThatNobodyHasAnyMoreIsMadeAnew) {
  auto gone = SharedConfig("gone", WithLimit(3));
  const std::weak_ptr<const SessionConfig> watch = gone;
  gone.reset();
  EXPECT_TRUE(watch.expired());
  EXPECT_EQ(SharedConfig("gone", WithLimit(4))->token_limit, 4);
}

TEST(SharedConfigTest, SettingsWhoseHashIsThatOfOthersGetTheirOwn) {
  // As if both texts had one hash.
  const auto first = SharedConfig("clash", WithLimit(5));
  const auto second = SharedConfig("clash", WithLimit(6));
  EXPECT_EQ(first->token_limit, 5);
  EXPECT_EQ(second->token_limit, 6);
}

TEST(SharedConfigTest, ManyConfigurationsThatComeAndGoLeaveOthersAlone) {
  std::vector<std::shared_ptr<const SessionConfig>> kept;
  for (int i = 0; i < 1000; ++i) {
    const std::string name = std::to_string(i);
    auto config = SharedConfig("many " + name, WithLimit(i));
    if (i % 10 == 0) kept.push_back(std::move(config));
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const auto number = static_cast<std::int64_t>(10 * i);
    EXPECT_EQ(SharedConfig("many " + std::to_string(number), WithLimit(number)), kept[i]);
    EXPECT_EQ(kept[i]->token_limit, number);
  }
}

}  // namespace
}  // namespace memoryd
