#include "core/blocks/fact_state.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "core/blocks/fact_text.h"
#include "core/model/job.h"

namespace memoryd {
namespace {

Fact MakeFact(std::int64_t id, std::string text) {
  Fact fact;
  fact.id = id;
  fact.text = std::move(text);
  fact.evidence = {"m1"};
  fact.trust = 0.8;
  return fact;
}

TEST(FactStateJsonTest, IsReadBackAsItWasWritten) {
  FactState state;
  state.next_id = 8;
  state.next_change = 5;
  state.facts = {MakeFact(1, "a"), MakeFact(2, "b")};
  state.facts[1].writer = "token:ann";
  state.facts[1].change = 3;
  for (const FactEnd end :
       {FactEnd::kReplaced, FactEnd::kCondensed, FactEnd::kEvicted, FactEnd::kUndone,
        FactEnd::kRetired, FactEnd::kCorrected, FactEnd::kDeleted}) {
    state.history.push_back({MakeFact(3, "c"), end, 4, 100, "j1", {1, 2}, {2}, "token:bob"});
  }
  EXPECT_EQ(FactState::FromJson(state.ToJson()).value(), state);
  EXPECT_EQ(FactState::FromJson(FactState().ToJson()).value(), FactState());
}

TEST(FactStateJsonTest, OlderServersReadWhatCallersChanged) {
  FactState state;
  state.history = {{MakeFact(1, "a"), FactEnd::kCorrected, 1, 2, "", {1}, {1}, ""},
                   {MakeFact(2, "b"), FactEnd::kDeleted, 2, 3, "", {}, {}, ""}};
  const std::string json = state.ToJson();
  EXPECT_NE(json.find(R"("end":"replaced","end_by_hand":"corrected")"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("end":"retired","end_by_hand":"deleted")"), std::string::npos) << json;
}

TEST(FactStateJsonTest, RefusesWhatIsNotOurs) {
  for (const std::string text :
       {"{", "[]", "{}", R"({"version":2,"next_id":1,"next_change":1,"facts":[],"history":[]})",
        R"({"version":1,"next_id":1,"next_change":1,"facts":[{}],"history":[]})",
        R"({"version":1,"next_id":1,"next_change":1,"facts":{},"history":[]})"}) {
    EXPECT_EQ(FactState::FromJson(text).status().code(), absl::StatusCode::kDataLoss) << text;
  }
  EXPECT_EQ(FactState::FromJson("").value(), FactState());
}

// Each takes twice its bytes.
std::string LargeText(std::int64_t id) {
  return std::string(kMaxFactBytes, '"') + std::to_string(id);
}

TEST(FactStateJsonTest, LeavesTheOldestHistoryOutToStayWithinItsBytes) {
  FactState state;
  // 400 have room, and 200 more have not.
  for (std::int64_t id = 1; id <= 400; ++id) {
    state.facts.push_back(MakeFact(id, LargeText(id)));
    if (id > 200) continue;
    state.history.push_back(
        {MakeFact(1000 + id, LargeText(id)), FactEnd::kEvicted, id, 1, "j", {}, {}, ""});
  }
  const std::string json = state.ToJson();
  EXPECT_LE(json.size(), kMaxBlockState);
  const FactState read = FactState::FromJson(json).value();
  EXPECT_EQ(read.facts, state.facts);
  ASSERT_FALSE(read.history.empty());
  EXPECT_LT(read.history.size(), state.history.size());
  EXPECT_EQ(read.history.back(), state.history.back());
}

TEST(FactStateJsonTest, LeavesTheFactsOfLeastTrustOutWhereNotAllHaveRoom) {
  FactState state;
  for (std::int64_t id = 1; id <= 2000; ++id) {
    state.facts.push_back(MakeFact(id, LargeText(id)));
    if (id % 2 == 0) state.facts.back().trust = 0.1;
  }
  const std::string json = state.ToJson();
  EXPECT_LE(json.size(), kMaxBlockState);
  const FactState read = FactState::FromJson(json).value();
  ASSERT_FALSE(read.facts.empty());
  for (const Fact& fact : read.facts) EXPECT_EQ(fact.trust, 0.8) << fact.id;
}

}  // namespace
}  // namespace memoryd
