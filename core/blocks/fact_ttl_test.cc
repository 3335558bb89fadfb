#include "core/blocks/fact_ttl.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/blocks/block_traits.h"
#include "core/blocks/fact_changes.h"
#include "core/blocks/fact_state.h"
#include "core/model/session_config.h"

namespace memoryd {
namespace {

constexpr std::int64_t kSecond = 1'000'000;

BlockSettings Facts(std::string options_json) {
  BlockSettings settings;
  settings.name = "facts";
  settings.kind = "fact-extraction";
  settings.options_json = std::move(options_json);
  return settings;
}

std::int64_t TtlUs(const BlockSettings& settings, Profile profile) {
  return TraitsOf(settings, profile)->ttl_us();
}

FactState Known() {
  FactState state;
  for (const auto& [text, last_us] :
       {std::pair("configured", std::int64_t{0}), std::pair("old", 10 * kSecond),
        std::pair("new", 20 * kSecond), std::pair("old too", 11 * kSecond)}) {
    Fact& fact = state.facts.emplace_back();
    fact.id = state.next_id++;
    fact.text = text;
    fact.last_us = last_us;
  }
  return state;
}

TEST(FactTtlTest, IsThatOfFactsWithTimes) {
  EXPECT_EQ(TtlUs(Facts(R"({"model":"m","ttl":60})"), Profile::kDefault), 60 * kSecond);
  EXPECT_EQ(TtlUs(Facts(R"({"model":"\"ttl\""})"), Profile::kDefault), 0);
  EXPECT_EQ(TtlUs(Facts(R"({"model":"m","ttl":null})"), Profile::kDefault), 0);
  EXPECT_EQ(TtlUs(Facts(""), Profile::kDefault), 0);
  EXPECT_EQ(TtlUs(Facts(R"({"model":"m","ttl":60})"), Profile::kLlamaIndex), 0);
  BlockSettings other = Facts(R"({"ttl":60})");
  other.kind = "worker";
  EXPECT_EQ(TtlUs(other, Profile::kDefault), 0);
}

TEST(FactTtlTest, OldFactsLeaveTogetherAndComeBackTogether) {
  FactState state = Known();
  EXPECT_EQ(RetireOldFacts(state, 5 * kSecond, {"j", 14 * kSecond}), 0U);
  EXPECT_EQ(state, Known());
  EXPECT_EQ(RetireOldFacts(state, 5 * kSecond, {"j", 16 * kSecond}), 2U);
  ASSERT_EQ(state.facts.size(), 2U);
  EXPECT_EQ(state.facts[0].text, "configured");
  EXPECT_EQ(state.facts[1].text, "new");
  ASSERT_EQ(state.history.size(), 2U);
  for (const PastFact& past : state.history) {
    EXPECT_EQ(past.end, FactEnd::kRetired);
    EXPECT_EQ(past.change, 1);
    EXPECT_EQ(past.job_id, "j");
  }
  EXPECT_EQ(state.next_change, 2);
  ASSERT_TRUE(UndoChange(state, 1, {"", 17 * kSecond}).ok());
  EXPECT_EQ(state.facts.size(), 4U);
}

TEST(FactTtlTest, AStateSaysWhenTheNextOneIsOver) {
  const auto traits = TraitsOf(Facts(R"({"model":"m","ttl":5})"), Profile::kDefault);
  const auto early = traits->OnTime(Known().ToJson(), 12 * kSecond);
  ASSERT_TRUE(early.ok()) << early.status();
  EXPECT_FALSE(early->state.has_value());
  EXPECT_EQ(early->next_us, 15 * kSecond);
  const auto later = traits->OnTime(Known().ToJson(), 16 * kSecond);
  ASSERT_TRUE(later.ok() && later->state.has_value()) << later.status();
  EXPECT_EQ(later->next_us, 25 * kSecond);
  EXPECT_EQ(FactState::FromJson(*later->state).value().facts.size(), 2U);
  const auto last = traits->OnTime(*later->state, 99 * kSecond);
  ASSERT_TRUE(last.ok() && last->state.has_value()) << last.status();
  EXPECT_EQ(last->next_us, 0);
  EXPECT_TRUE(absl::IsDataLoss(traits->OnTime("{", 1).status()));
}

}  // namespace
}  // namespace memoryd
