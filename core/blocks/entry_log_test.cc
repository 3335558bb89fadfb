#include "core/blocks/entry_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <vector>

#include "core/blocks/vector_entry.h"

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
  EXPECT_FALSE(log.HasMarks());
  EXPECT_FALSE(log.Hides(1, At({1})));
  log.NoteMark({3, 5, 200, true});
  log.NoteMark({9, 10, 200, true});
  log.NoteMark({7, 8, 20, false});
  EXPECT_TRUE(log.HasMarks());
  EXPECT_FALSE(log.Hides(1, At({1, 2, 5})));
  EXPECT_TRUE(log.Hides(1, At({1, 4, 6})));
  EXPECT_TRUE(log.Hides(100, At({8, 9})));
  EXPECT_TRUE(log.Hides(19, At({6, 7})));
  EXPECT_FALSE(log.Hides(20, At({6, 7})));
  EXPECT_FALSE(log.Hides(1, At({})));
  EXPECT_TRUE(log.IsGone(3));
  EXPECT_FALSE(log.IsGone(5));
  EXPECT_FALSE(log.IsGone(7));
  log.NoteMark({7, 8, 30, false});
  EXPECT_TRUE(log.Hides(29, At({7})));
  EXPECT_EQ(ReadBack(log), log);
  // Side by side they hide what each of them did.
  log.NoteMark({8, 9, 40, true});
  EXPECT_THAT(log.marks,
              ElementsAre(EntryLog::Mark{3, 5, 200, true}, EntryLog::Mark{7, 10, 200, false}));
}

TEST(EntryLogTest, WhatWasTakenOutIsForgottenAndWhatCameSinceIsNot) {
  EntryLog log;
  log.Open(5, 17);
  log.NoteMark({1, 3, 5, true});
  log.NoteMark({8, 9, 5, false});
  log.NoteMark({11, 12, 5, false});
  const EntryLog looked = log;
  log.NoteMark({2, 4, 5, true});
  log.NoteMark({11, 12, 12, false});
  log.NoteRemoved({{1, 3}}, 2);
  log.Forget(looked);
  EXPECT_THAT(log.marks,
              ElementsAre(EntryLog::Mark{3, 4, 5, true}, EntryLog::Mark{11, 12, 12, false}));
  EXPECT_EQ(log.count, 2);
  EXPECT_EQ(log.removals, 1);
  EXPECT_EQ(log.id, 17U);
  EXPECT_THAT(log.removed, ElementsAre(NumberRange{1, 3}));
  EXPECT_THAT(log.late, ElementsAre(NumberRange{3, 5}));
  EXPECT_EQ(ReadBack(log), log);
  const EntryLog all = log;
  log.Forget(all);
  EXPECT_FALSE(log.HasMarks());
}

TEST(EntryLogTest, KnowsWhichEntriesStandInOrder) {
  EntryLog log;
  log.Open(1, 1);
  log.NoteStored(1, {1, 3}, 5, false);
  log.NoteStored(2, {2, 3}, 5, false);  // Another piece.
  EXPECT_THAT(log.late, IsEmpty());
  log.NoteStored(3, {1, 2}, 5, true);
  log.NoteStored(4, {2, 3}, 5, true);
  log.NoteStored(5, {6, 7}, 5, false);
  EXPECT_THAT(log.late, ElementsAre(NumberRange{3, 5}));
  EXPECT_EQ(log.count, 5);
  EXPECT_EQ(log.fed_to, 7);
  log.NoteRemoved({{4, 5}}, 1);
  EXPECT_THAT(log.late, ElementsAre(NumberRange{3, 4}));
  EXPECT_EQ(ReadBack(log), log);
  // Of what an earlier version has stored nothing is known.
  EntryLog earlier;
  earlier.Open(10, 1);
  earlier.NoteStored(10, {20, 21}, 5, false);
  EXPECT_EQ(earlier.count, 10);
  EXPECT_THAT(earlier.late, ElementsAre(NumberRange{1, 10}));
}

TEST(EntryLogTest, KnowsHowOldItsEntriesMayBe) {
  EntryLog log;
  log.Open(1, 1);
  log.NoteStored(1, {1, 2}, 100, false);
  log.NoteStored(2, {2, 3}, 90, false);
  log.NoteStored(3, {3, 4}, 110, false);
  EXPECT_EQ(log.oldest_us, 90);
  EXPECT_EQ(ReadBack(log), log);
  log.NoteRemoved({{1, 4}}, 3);
  log.NoteStored(4, {4, 5}, 200, false);
  EXPECT_EQ(log.oldest_us, 200);
  EntryLog earlier;
  earlier.Open(10, 1);
  earlier.NoteStored(10, {20, 21}, 300, false);
  EXPECT_EQ(earlier.oldest_us, 0);
}

TEST(EntryLogTest, StaysSmall) {
  EntryLog log;
  log.Open(100'000, 1);
  for (std::int64_t i = 1; i <= 3000; ++i) {
    log.NoteMark({3 * i, 3 * i + 1, 200'000, true});
    log.NoteStored(100'000 + i, {3000 - i, 3001 - i}, 5, i % 2 == 0);
    log.NoteRemoved({{2 * i, 2 * i + 1}}, 0);
  }
  EXPECT_LE(log.marks.size(), 256U);
  EXPECT_LE(log.late.size(), 256U);
  EXPECT_THAT(log.removed, SizeIs(64));
  EXPECT_EQ(log.removals, 3000);
  // Nothing that is gone is shown for that, and nothing that is there is taken to be gone.
  for (std::int64_t i = 1; i <= 3000; ++i) {
    EXPECT_TRUE(log.Hides(0, At({3 * i})));
    EXPECT_FALSE(log.IsGone(3 * i + 1));
  }
  nlohmann::json object = nlohmann::json::object();
  log.WriteTo(object);
  EXPECT_LT(object.dump().size(), 30'000U);
  EXPECT_EQ(ReadBack(log), log);
}

TEST(EntryLogTest, AStateSaysWithoutBeingReadThatNothingIsToBeTakenOut) {
  nlohmann::json object = nlohmann::json::object();
  EntryLog log;
  log.Open(4, 1);
  log.WriteTo(object);
  EXPECT_FALSE(MayHideEntries(object.dump()));
  log.NoteMark({1, 2, 4, false});
  log.WriteTo(object);
  EXPECT_TRUE(MayHideEntries(object.dump()));
}

}  // namespace
}  // namespace memoryd
