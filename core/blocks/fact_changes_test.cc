#include "core/blocks/fact_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/blocks/block_text.h"
#include "core/blocks/fact_state.h"
#include "core/blocks/fact_text.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<FactSource> kSources = {{"m1", true}, {"m2", false}};

AnsweredFact Answered(std::string text, std::vector<std::int64_t> evidence = {},
                      std::vector<std::int64_t> replaces = {},
                      std::vector<std::int64_t> from = {}) {
  return {std::move(text), std::move(evidence), std::move(replaces), std::move(from)};
}

std::vector<std::string> Texts(const FactState& state) {
  std::vector<std::string> texts;
  for (const Fact& fact : state.facts) texts.push_back(fact.text);
  return texts;
}

TEST(RetireEvidenceTest, FactsThatRestOnNothingElseGoTogetherAndComeBackTogether) {
  FactState state;
  TakeIn(state, std::vector{Answered("a", {1}), Answered("b", {1, 2}), Answered("c", {1})},
         kSources, {"j1", 100});
  state.facts.push_back({});
  state.facts.back().id = state.next_id++;
  state.facts.back().text = "configured";
  const FactState before = state;
  const std::vector<std::string> nobody = {"m9"};
  EXPECT_FALSE(RetireEvidence(state, nobody, {"", 200}).changed);
  EXPECT_EQ(state, before);

  const std::vector<std::string> gone = {"m1"};
  const Retired retired = RetireEvidence(state, gone, {"", 200});
  EXPECT_TRUE(retired.changed);
  EXPECT_EQ(retired.facts, 2U);
  EXPECT_THAT(Texts(state), ElementsAre("b", "configured"));
  EXPECT_THAT(state.facts[0].evidence, ElementsAre("m2"));
  ASSERT_EQ(state.history.size(), 2U);
  EXPECT_EQ(state.history[0].end, FactEnd::kRetired);
  EXPECT_EQ(state.history[0].fact, before.facts[0]);
  EXPECT_EQ(state.history[0].change, state.history[1].change);
  EXPECT_EQ(FactState::FromJson(state.ToJson()).value(), state);
  EXPECT_TRUE(UndoChange(state, state.history[0].change, {"", 300}).ok());
  EXPECT_THAT(Texts(state), ElementsAre("b", "configured", "a", "c"));
}

TEST(TakeInTest, KeepsEvidenceTimesAndTrust) {
  FactState state;
  TakeIn(state,
         std::vector{Answered("Ann is a user", {1}), Answered("b", {2}), Answered("c"),
                     Answered("d", {9})},
         kSources, {"j1", 100});
  ASSERT_EQ(state.facts.size(), 4U);
  EXPECT_THAT(state.facts[0].evidence, ElementsAre("m1"));
  EXPECT_THAT(state.facts[2].evidence, ElementsAre("m1", "m2"));
  EXPECT_THAT(state.facts[3].evidence, ElementsAre("m1", "m2"));
  EXPECT_GT(state.facts[0].trust, state.facts[2].trust);
  EXPECT_GT(state.facts[2].trust, state.facts[1].trust);

  const double before = state.facts[0].trust;
  TakeIn(state, std::vector{Answered("ann is a  USER.", {1})},
         std::vector<FactSource>{{"m9", true}}, {"j2", 200});
  ASSERT_EQ(state.facts.size(), 4U);
  const Fact& fact = state.facts[0];
  EXPECT_EQ(fact.text, "Ann is a user");
  EXPECT_THAT(fact.evidence, ElementsAre("m1", "m9"));
  EXPECT_EQ(fact.first_us, 100);
  EXPECT_EQ(fact.last_us, 200);
  EXPECT_EQ(fact.seen, 2);
  EXPECT_GT(fact.trust, before);
  EXPECT_LT(fact.trust, 1);
}

TEST(TakeInTest, WhatRestsOnSomebodyUntrustedIsTrustedLeastAndReplacesNothingElse) {
  const std::vector<FactSource> sources = {{"m1", true}, {"web", true, true}};
  FactState state;
  TakeIn(state, std::vector{Answered("lives in Bonn", {1}), Answered("has a cat", {2})}, sources,
         {"j1", 1});
  TakeIn(state,
         std::vector{Answered("lives in Kiel", {1, 2}, {1}), Answered("has a dog", {2}, {2}),
                     Answered("c")},
         sources, {"j2", 2});
  EXPECT_THAT(Texts(state), ElementsAre("lives in Bonn", "lives in Kiel", "has a dog", "c"));
  const double least = state.facts[1].trust;
  EXPECT_LT(least, 0.4);
  EXPECT_EQ(state.facts[2].trust, least);
  EXPECT_EQ(state.facts[3].trust, least) << "nobody knows who said it";

  // Said again by the same it gains nothing, by the user as much as he is trusted.
  const double user = state.facts[0].trust;
  TakeIn(state, std::vector{Answered("lives in Bonn", {2}), Answered("has a dog", {2})}, sources,
         {"j3", 3});
  EXPECT_EQ(state.facts[0].trust, user);
  EXPECT_EQ(state.facts[2].trust, least);
  TakeIn(state, std::vector{Answered("has a dog", {1})}, sources, {"j4", 4});
  EXPECT_EQ(state.facts[2].trust, user);
}

TEST(CondenseTest, WhatIsMadeOfSomethingUntrustedIsTrustedAsLittle) {
  const std::vector<FactSource> sources = {{"m1", true}, {"web", true, true}};
  for (const bool untrusted_first : {true, false}) {
    FactState state;
    TakeIn(state,
           std::vector{Answered("a", {untrusted_first ? 2 : 1}),
                       Answered("b", {untrusted_first ? 1 : 2}), Answered("c", {1})},
           sources, {"j1", 1});
    const double least = std::min(state.facts[0].trust, state.facts[1].trust);
    ASSERT_TRUE(Condense(state, std::vector{Answered("a and b", {}, {}, {1, 2}), Answered("c")},
                         {"j2", 2}));
    EXPECT_EQ(state.facts[0].trust, least);
    EXPECT_GT(state.facts[1].trust, least);
  }
}

TEST(TakeInTest, WhatIsReplacedGoesIntoTheHistoryAndCanComeBack) {
  FactState state;
  TakeIn(state, std::vector{Answered("lives in Bonn"), Answered("has a cat")}, kSources, {"j1", 1});
  const FactState before = state;
  TakeIn(state, std::vector{Answered("lives in Kiel", {1}, {1, 77})}, kSources, {"j2", 2});
  EXPECT_THAT(Texts(state), ElementsAre("has a cat", "lives in Kiel"));
  ASSERT_EQ(state.history.size(), 1U);
  EXPECT_EQ(state.history[0].fact, before.facts[0]);
  EXPECT_EQ(state.history[0].end, FactEnd::kReplaced);
  EXPECT_THAT(state.history[0].by, ElementsAre(3));
  EXPECT_EQ(state.history[0].job_id, "j2");

  const std::int64_t change = state.history[0].change;
  ASSERT_TRUE(UndoChange(state, change, {"operator", 3}).ok());
  EXPECT_THAT(Texts(state), ElementsAre("has a cat", "lives in Bonn"));
  ASSERT_EQ(state.history.size(), 1U);
  EXPECT_EQ(state.history[0].fact.text, "lives in Kiel");
  EXPECT_EQ(state.history[0].end, FactEnd::kUndone);
  EXPECT_EQ(UndoChange(state, change, {"operator", 3}).code(), absl::StatusCode::kNotFound);
  // The undoing can be undone.
  ASSERT_TRUE(UndoChange(state, state.history[0].change, {"operator", 4}).ok());
  EXPECT_THAT(Texts(state), ElementsAre("has a cat", "lives in Kiel"));
}

TEST(TakeInTest, AKnownFactMayReplaceAnother) {
  FactState state;
  TakeIn(state, std::vector{Answered("in Bonn"), Answered("in Kiel")}, kSources, {"j1", 1});
  TakeIn(state, std::vector{Answered("in Kiel", {}, {1, 2})}, kSources, {"j2", 2});
  EXPECT_THAT(Texts(state), ElementsAre("in Kiel"));
  // What was known before stays when the change is undone.
  ASSERT_TRUE(UndoChange(state, state.history[0].change, {"operator", 3}).ok());
  EXPECT_THAT(Texts(state), ElementsAre("in Kiel", "in Bonn"));
}

TEST(CondenseTest, InheritsAndBuriesWhatVanished) {
  FactState state;
  TakeIn(state,
         std::vector{Answered("has a cat", {1}), Answered("cat is Tom", {2}), Answered("x"),
                     Answered("y")},
         kSources, {"j1", 1});
  TakeIn(state, std::vector{Answered("cat is Tom", {1})}, kSources, {"j2", 5});
  ASSERT_TRUE(Condense(
      state, std::vector{Answered("has a cat, Tom", {}, {}, {1, 2}), Answered("X.", {}, {}, {3})},
      {"j3", 9}));
  ASSERT_THAT(Texts(state), ElementsAre("has a cat, Tom", "x"));
  EXPECT_THAT(state.facts[0].evidence, ElementsAre("m1", "m2"));
  EXPECT_EQ(state.facts[0].first_us, 1);
  EXPECT_EQ(state.facts[0].last_us, 5);
  EXPECT_EQ(state.facts[0].seen, 2);
  ASSERT_EQ(state.history.size(), 3U);
  EXPECT_EQ(state.history[2].fact.text, "y");
  EXPECT_THAT(state.history[2].by, IsEmpty());
  EXPECT_THAT(state.history[0].by, ElementsAre(state.facts[0].id));

  ASSERT_TRUE(UndoChange(state, state.history[0].change, {"operator", 10}).ok());
  EXPECT_THAT(Texts(state), testing::UnorderedElementsAre("has a cat", "cat is Tom", "x", "y"));
}

TEST(CondenseTest, RefusesWhatWouldLoseMost) {
  FactState state;
  std::vector<AnsweredFact> many;
  for (int i = 0; i < 9; ++i) many.push_back(Answered("fact " + std::to_string(i)));
  TakeIn(state, many, kSources, {"j1", 1});
  const FactState before = state;
  EXPECT_FALSE(Condense(state, {}, {"j2", 2}));
  EXPECT_FALSE(Condense(state, std::vector{Answered("a"), Answered("b")}, {"j2", 2}));
  EXPECT_EQ(state, before);
}

TEST(EvictTest, TakesTheLeastTrustedThenTheOldest) {
  FactState state;
  TakeIn(state, std::vector{Answered("tool said", {2}), Answered("user said", {1})}, kSources,
         {"j1", 1});
  TakeIn(state, std::vector{Answered("tool said later", {2})}, kSources, {"j2", 2});
  Evict(state, 2, {"j3", 3});
  EXPECT_THAT(Texts(state), ElementsAre("user said", "tool said later"));
  Evict(state, 1, {"j3", 3});
  EXPECT_THAT(Texts(state), ElementsAre("user said"));
  EXPECT_EQ(state.history[0].end, FactEnd::kEvicted);
}

FactEdit Edit(FactEdit::Kind kind, std::int64_t fact_id, std::string text = "") {
  FactEdit edit;
  edit.kind = kind;
  edit.fact_id = fact_id;
  edit.text = std::move(text);
  return edit;
}

TEST(EditFactTest, EachChangeCanBeTakenBackAndThatToo) {
  FactState state;
  TakeIn(state, std::vector{Answered("a", {1})}, kSources, {"j1", 100});
  FactEdit add = Edit(FactEdit::Kind::kAdd, 0, "b");
  add.evidence = {"m1", "m1", "m2"};
  const EditedFact added = EditFact(state, add, 50, {"", 200, "token:ann"}).value();
  EXPECT_THAT(Texts(state), ElementsAre("a", "b"));
  EXPECT_EQ(added.fact, state.facts[1]);
  EXPECT_EQ(added.fact.id, 2);
  EXPECT_EQ(added.fact.writer, "token:ann");
  EXPECT_EQ(added.fact.change, added.change);
  EXPECT_EQ(added.fact.seen, 0);
  EXPECT_EQ(added.fact.first_us, 200);
  EXPECT_THAT(added.fact.evidence, ElementsAre("m1", "m2"));
  EXPECT_THAT(state.history, IsEmpty());

  const Fact before = state.facts[0];
  const EditedFact corrected =
      EditFact(state, Edit(FactEdit::Kind::kCorrect, 1, "A!"), 50, {"", 300, "token:bob"}).value();
  EXPECT_THAT(Texts(state), ElementsAre("A!", "b"));
  EXPECT_EQ(corrected.fact.id, 1);
  EXPECT_EQ(corrected.fact.trust, before.trust);
  EXPECT_EQ(corrected.fact.evidence, before.evidence);
  EXPECT_EQ(corrected.fact.writer, "token:bob");
  ASSERT_EQ(state.history.size(), 1U);
  EXPECT_EQ(state.history[0].fact, before);
  EXPECT_EQ(state.history[0].end, FactEnd::kCorrected);
  EXPECT_EQ(state.history[0].writer, "token:bob");

  const EditedFact deleted =
      EditFact(state, Edit(FactEdit::Kind::kDelete, 1), 50, {"", 400, "token:cy"}).value();
  EXPECT_EQ(deleted.fact, corrected.fact);
  EXPECT_THAT(Texts(state), ElementsAre("b"));
  EXPECT_EQ(state.history[1].end, FactEnd::kDeleted);
  EXPECT_EQ(FactState::FromJson(state.ToJson()).value(), state);

  // In any order; there is never a fact twice.
  EXPECT_TRUE(UndoChange(state, corrected.change, {"", 500}).ok());
  EXPECT_THAT(Texts(state), ElementsAre("b", "a"));
  EXPECT_TRUE(UndoChange(state, deleted.change, {"", 600}).ok());
  EXPECT_THAT(Texts(state), ElementsAre("b", "A!"));
  EXPECT_TRUE(UndoChange(state, added.change, {"", 700}).ok());
  EXPECT_THAT(Texts(state), ElementsAre("A!"));
  EXPECT_EQ(state.history.back().end, FactEnd::kUndone);
  EXPECT_TRUE(UndoChange(state, state.history.back().change, {"", 800}).ok());
  EXPECT_THAT(Texts(state), ElementsAre("A!", "b"));
  EXPECT_EQ(state.facts[1], added.fact);
}

TEST(EditFactTest, WhatCantBeDoneChangesNothing) {
  FactState state;
  TakeIn(state, std::vector{Answered("Ann has a cat", {1}), Answered("b", {2})}, kSources,
         {"j1", 100});
  const FactState before = state;
  const auto reason = [&state](const FactEdit& edit, std::size_t max_facts = 50) {
    return ErrorReason(EditFact(state, edit, max_facts, {"", 200}).status());
  };
  EXPECT_EQ(reason(Edit(FactEdit::Kind::kDelete, 3)), "FACT_NOT_FOUND");
  EXPECT_EQ(reason(Edit(FactEdit::Kind::kCorrect, 0, "c")), "FACT_NOT_FOUND");
  EXPECT_EQ(reason(Edit(FactEdit::Kind::kAdd, 0, "ann has a  cat.")), "FACT_EXISTS");
  EXPECT_EQ(reason(Edit(FactEdit::Kind::kCorrect, 2, "Ann has a cat.")), "FACT_EXISTS");
  EXPECT_EQ(reason(Edit(FactEdit::Kind::kAdd, 0, "c"), 1), "BLOCK_FULL");
  EXPECT_EQ(reason(Edit(FactEdit::Kind::kAdd, 0, "c"), 2), "") << "half as many again";
  state = before;
  EXPECT_EQ(reason(Edit(FactEdit::Kind::kCorrect, 1, "Ann has a cat.")), "") << "its own text";
}

TEST(EditFactTest, NobodyIsTrustedMoreThanTheServerSays) {
  FactState state;
  FactEdit add = Edit(FactEdit::Kind::kAdd, 0);
  const auto trust = [&](std::optional<double> asked, bool evidence, double caller) {
    add.text = "fact " + std::to_string(state.next_id);
    add.trust = asked;
    add.untrusted_evidence = evidence;
    return EditFact(state, add, 50, {"", 1, "w", caller}).value().fact.trust;
  };
  EXPECT_EQ(trust({}, false, 1), 0.8);
  EXPECT_EQ(trust(1, false, 1), 1);
  EXPECT_EQ(trust(0.3, false, 1), 0.3);
  EXPECT_EQ(trust(1, true, 1), 0.1);
  EXPECT_EQ(trust({}, false, 0.1), 0.1);
  EXPECT_EQ(trust(0.05, false, 0.1), 0.05);
  EXPECT_EQ(trust({}, false, 0.4), 0.4);
  EXPECT_EQ(trust(1, false, 0.8), 0.8);
  EXPECT_EQ(trust(1, true, 0.8), 0.1);

  // An untrusted caller moves only what is trusted no more.
  const FactJob web{"", 2, "web", 0.1};
  const FactState before = state;
  for (const auto kind : {FactEdit::Kind::kCorrect, FactEdit::Kind::kDelete}) {
    EXPECT_EQ(ErrorReason(EditFact(state, Edit(kind, 1, "x"), 50, web).status()), "FACT_TRUSTED");
  }
  EXPECT_EQ(ErrorReason(UndoChange(state, state.facts[0].change, web)), "FACT_TRUSTED");
  EXPECT_EQ(state, before);
  FactState without = state;
  const auto gone = EditFact(without, Edit(FactEdit::Kind::kDelete, 1), 50, {"", 2}).value();
  EXPECT_EQ(ErrorReason(UndoChange(without, gone.change, web)), "FACT_TRUSTED");
  // One who writes as a user does what a user has said.
  const FactJob as_user{"", 2, "chat", kUserTrust};
  EXPECT_EQ(ErrorReason(EditFact(without, Edit(FactEdit::Kind::kDelete, 2), 50, as_user).status()),
            "FACT_TRUSTED");
  EXPECT_TRUE(EditFact(without, Edit(FactEdit::Kind::kDelete, 8), 50, as_user).ok());
  EXPECT_TRUE(UndoChange(without, gone.change, as_user).ok());
  EXPECT_TRUE(EditFact(state, Edit(FactEdit::Kind::kCorrect, 4, "x"), 50, web).ok());
  EXPECT_TRUE(EditFact(state, Edit(FactEdit::Kind::kDelete, 5), 50, web).ok());
  EXPECT_TRUE(UndoChange(state, state.history.back().change, web).ok());
}

// Whatever models answer and callers change: a fact that was known is known afterwards or in the
// history; no two facts have one id; what is written is read back.
class FactChangesPropertyTest : public testing::TestWithParam<unsigned> {
 protected:
  using Said = std::set<std::pair<std::int64_t, std::string>>;

  std::vector<AnsweredFact> Answer() {
    std::vector<AnsweredFact> answer;
    for (std::size_t left = random_() % 5; left > 0; --left) {
      AnsweredFact fact = Answered("fact ,\"history\":[ " + std::to_string(random_() % 30));
      for (auto* numbers : {&fact.evidence, &fact.replaces, &fact.from}) {
        for (std::size_t n = random_() % 3; n > 0; --n) {
          numbers->push_back(static_cast<std::int64_t>(random_() % 40));
        }
      }
      answer.push_back(std::move(fact));
    }
    return answer;
  }

  void EditSome(int step) {
    FactEdit edit;
    edit.kind = static_cast<FactEdit::Kind>(random_() % 3);
    edit.fact_id = state_.facts.empty() ? 99 : state_.facts[random_() % state_.facts.size()].id;
    edit.text = "by hand " + std::to_string(random_() % 10);
    const auto edited = EditFact(state_, edit, 20, {"", step, "token:ann"});
    if (edited.ok() && random_() % 3 == 0) {
      EXPECT_TRUE(UndoChange(state_, edited->change, {"j", step}).ok());
    }
  }

  void UndoSome(const FactJob& job) {
    if (state_.history.empty()) return;
    const std::size_t i = random_() % state_.history.size();
    EXPECT_TRUE(UndoChange(state_, state_.history[i].change, job).ok());
  }

  void ChangeSomehow(int step) {
    const FactJob job{"j" + std::to_string(step), step};
    switch (random_() % 8) {
      case 0:
        Condense(state_, Answer(), job);
        break;
      case 1:
        Evict(state_, 5 + random_() % 10, job);
        break;
      case 2:
        UndoSome(job);
        break;
      case 3:
      case 4:
      case 5:
        EditSome(step);
        break;
      default:
        TakeIn(state_, Answer(), kSources, job);
    }
  }

  // All that is said, or was.
  Said Check() const {
    Said said;
    for (const PastFact& past : state_.history) said.emplace(past.fact.id, past.fact.text);
    std::set<std::int64_t> current;
    for (const Fact& fact : state_.facts) {
      EXPECT_TRUE(current.insert(fact.id).second) << "twice: " << fact.id;
      said.emplace(fact.id, fact.text);
      EXPECT_LE(fact.evidence.size(), kMaxEvidence);
      EXPECT_TRUE(fact.trust >= 0 && fact.trust <= 1);
    }
    EXPECT_EQ(FactState::FromJson(state_.ToJson()).value(), state_);
    FactState bare = state_;
    bare.history.clear();
    EXPECT_EQ(FactState::FromJson(WithoutHistory(state_.ToJson())).value(), bare);
    return said;
  }

  std::mt19937 random_{GetParam()};
  FactState state_;
};

TEST_P(FactChangesPropertyTest, LosesNothing) {
  Said ever;
  for (int step = 0; step < 25 && !HasFailure(); ++step) {
    SCOPED_TRACE(step);
    ChangeSomehow(step);
    const Said now = Check();
    if (state_.history.size() < kMaxPastFacts) {
      EXPECT_TRUE(std::includes(now.begin(), now.end(), ever.begin(), ever.end())) << "lost a fact";
      ever = now;
    } else {
      ever.clear();
      for (const Fact& fact : state_.facts) ever.emplace(fact.id, fact.text);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, FactChangesPropertyTest, testing::Range(1U, 61U));

}  // namespace
}  // namespace memoryd
