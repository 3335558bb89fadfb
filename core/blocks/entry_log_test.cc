#include "core/blocks/entry_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <set>

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

EntryLog ReadBack(const EntryLog& log) {
  nlohmann::json object = nlohmann::json::object();
  log.WriteTo(object);
  return EntryLog::ReadFrom(nlohmann::json::parse(object.dump()));
}

std::vector<EntrySource> At(std::initializer_list<std::int64_t> positions) {
  std::vector<EntrySource> sources;
  for (const std::int64_t position : positions) sources.push_back({position, "m"});
  return sources;
}

TEST(EntryLogTest, RangesAreAsTheSetOfTheirNumbers) {
  std::mt19937 random(7);
  std::vector<NumberRange> ranges;
  std::set<std::int64_t> numbers;
  for (int round = 0; round < 2000; ++round) {
    const std::int64_t begin = static_cast<std::int64_t>(random() % 60);
    const std::int64_t end = begin + static_cast<std::int64_t>(random() % 6);
    if (random() % 2 == 0) {
      AddRange(ranges, {begin, end});
      for (std::int64_t number = begin; number < end; ++number) numbers.insert(number);
    } else {
      CutRange(ranges, {begin, end});
      for (std::int64_t number = begin; number < end; ++number) numbers.erase(number);
    }
    std::set<std::int64_t> found;
    std::int64_t last = -1;
    for (const NumberRange& range : ranges) {
      ASSERT_LT(last, range.begin);
      ASSERT_LT(range.begin, range.end);
      last = range.end;
      for (std::int64_t number = range.begin; number < range.end; ++number) found.insert(number);
    }
    ASSERT_EQ(found, numbers);
  }
}

TEST(EntryLogTest, HidesWhatHoldsAMessageThatIsGoneOrWasOnceOtherwise) {
  EntryLog log;
  EXPECT_FALSE(log.HasGone());
  EXPECT_FALSE(log.Hides(1, At({1})));
  log.NoteGone({3, 5});
  log.NoteGone({9, 10});
  log.NoteChanged(7, 20);
  EXPECT_TRUE(log.HasGone());
  EXPECT_FALSE(log.Hides(1, At({1, 2, 5})));
  EXPECT_TRUE(log.Hides(1, At({1, 4, 6})));
  EXPECT_TRUE(log.Hides(100, At({8, 9})));
  EXPECT_TRUE(log.Hides(19, At({6, 7})));
  EXPECT_FALSE(log.Hides(20, At({6, 7})));
  EXPECT_FALSE(log.Hides(1, At({})));
  EXPECT_TRUE(log.IsGone(3));
  EXPECT_FALSE(log.IsGone(5));
  log.NoteChanged(7, 30);
  EXPECT_TRUE(log.Hides(29, At({7})));
  EXPECT_EQ(ReadBack(log), log);
}

TEST(EntryLogTest, WhatWasTakenOutIsForgottenAndWhatCameSinceIsNot) {
  EntryLog log;
  log.Open(5);
  log.NoteGone({1, 3});
  log.NoteChanged(8, 9);
  log.NoteChanged(9, 9);
  const EntryLog looked = log;
  log.NoteGone({2, 4});
  log.NoteChanged(9, 12);
  log.NoteRemoved({{1, 3}}, 2);
  log.Forget(looked);
  EXPECT_THAT(log.gone, ElementsAre(NumberRange{3, 4}));
  EXPECT_THAT(log.changed, ElementsAre(EntryLog::Change{9, 12}));
  EXPECT_EQ(log.count, 2);
  EXPECT_EQ(log.removals, 1);
  EXPECT_THAT(log.removed, ElementsAre(NumberRange{1, 3}));
  EXPECT_THAT(log.late, ElementsAre(NumberRange{3, 5}));
  EXPECT_EQ(ReadBack(log), log);
  const EntryLog all = log;
  log.Forget(all);
  EXPECT_FALSE(log.HasGone());
}

TEST(EntryLogTest, KnowsWhichEntriesStandInOrder) {
  EntryLog log;
  log.NoteStored(1, {1, 3}, 5);
  log.NoteStored(2, {2, 3}, 5);  // Another piece.
  log.NoteStored(3, {3, 6}, 5);
  EXPECT_THAT(log.late, IsEmpty());
  log.NoteStored(4, {1, 2}, 5);
  log.NoteStored(5, {4, 6}, 5);
  log.NoteStored(6, {6, 7}, 5);
  EXPECT_THAT(log.late, ElementsAre(NumberRange{4, 6}));
  EXPECT_EQ(log.count, 6);
  EXPECT_EQ(log.fed_to, 7);
  log.NoteRemoved({{5, 6}}, 1);
  EXPECT_THAT(log.late, ElementsAre(NumberRange{4, 5}));
  EXPECT_EQ(ReadBack(log), log);
  // Of what an earlier version has stored nothing is known.
  EntryLog earlier;
  earlier.NoteStored(10, {20, 21}, 5);
  EXPECT_EQ(earlier.count, 10);
  EXPECT_THAT(earlier.late, ElementsAre(NumberRange{1, 10}));
}

TEST(EntryLogTest, KnowsHowOldItsEntriesMayBe) {
  EntryLog log;
  log.NoteStored(1, {1, 2}, 100);
  log.NoteStored(2, {2, 3}, 90);
  log.NoteStored(3, {3, 4}, 110);
  EXPECT_EQ(log.oldest_us, 90);
  EXPECT_EQ(ReadBack(log), log);
  log.NoteRemoved({{1, 4}}, 3);
  log.NoteStored(4, {4, 5}, 200);
  EXPECT_EQ(log.oldest_us, 200);
  EntryLog earlier;
  earlier.NoteStored(10, {20, 21}, 300);
  EXPECT_EQ(earlier.oldest_us, 0);
}

TEST(EntryLogTest, StaysSmall) {
  EntryLog log;
  log.Open(1);
  for (std::int64_t i = 1; i <= 3000; ++i) {
    log.NoteGone({3 * i, 3 * i + 1});
    log.NoteChanged(100'000 + i, i);
    log.NoteStored(i, {3000 - i, 3001 - i}, 5);
    log.NoteRemoved({{2 * i, 2 * i + 1}}, 0);
  }
  EXPECT_LE(log.gone.size(), 256U);
  EXPECT_LE(log.late.size(), 256U);
  EXPECT_THAT(log.changed, SizeIs(256));
  EXPECT_THAT(log.removed, SizeIs(64));
  EXPECT_EQ(log.removals, 3000);
  // Nothing that is gone is shown for that.
  for (std::int64_t i = 1; i <= 3000; ++i) {
    EXPECT_TRUE(log.Hides(0, At({3 * i})));
    EXPECT_TRUE(log.Hides(0, At({100'000 + i})));
  }
  nlohmann::json object = nlohmann::json::object();
  log.WriteTo(object);
  EXPECT_LT(object.dump().size(), 20'000U);
  EXPECT_EQ(ReadBack(log), log);
}

TEST(EntryLogTest, AStateSaysWithoutBeingReadThatNothingIsToBeTakenOut) {
  nlohmann::json object = nlohmann::json::object();
  EntryLog log;
  log.Open(4);
  log.WriteTo(object);
  EXPECT_FALSE(MayHideEntries(object.dump()));
  log.NoteGone({1, 2});
  log.WriteTo(object);
  EXPECT_TRUE(MayHideEntries(object.dump()));
  EntryLog changed;
  changed.NoteChanged(1, 2);
  object = nlohmann::json::object();
  changed.WriteTo(object);
  EXPECT_TRUE(MayHideEntries(object.dump()));
}

}  // namespace
}  // namespace memoryd
