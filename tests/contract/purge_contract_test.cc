// The contract of Store::Purge, over every store.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/store.h"
#include "tests/contract/store_fixture.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const SessionKey kKey = {"tenant", "session"};

class PurgeContractTest : public StoreTest {
 protected:
  std::int64_t Purge(std::int64_t max_rows, std::int64_t now_us = 0, std::int64_t keep_us = 0) {
    const auto purged = store().Purge({.now_us = now_us, .keep_us = keep_us, .max_rows = max_rows});
    EXPECT_TRUE(purged.ok()) << purged.status();
    EXPECT_LE(purged.value_or(0), max_rows);
    return purged.value_or(0);
  }
};

TEST_P(PurgeContractTest, NothingGoesWhereNothingIsGarbage) {
  EXPECT_EQ(Purge(100), 0);
  MustCommit(NewSession(kKey, 3));
  EXPECT_EQ(Purge(100), 0);
  EXPECT_THAT(Positions(kKey, 1), ElementsAre(1, 2, 3));
}

TEST_P(PurgeContractTest, AnOldGenerationGoesAndNothingElse) {
  const SessionChange first = NewSession(kKey, 3, /*generation=*/7);
  const SessionChange other_session = NewSession({"tenant", "other"}, 3, 7);
  const SessionChange other_tenant = NewSession({"t2", "session"}, 3, 7);
  for (const SessionChange& change : {first, other_session, other_tenant}) MustCommit(change);
  SessionChange second = Following(first, 2);
  second.row.generation = 8;
  second.garbage = {{7, 0, first.row.next_position}};
  MustCommit(second);

  EXPECT_GE(Purge(1000), 3);
  EXPECT_EQ(Purge(1000), 0);
  EXPECT_THAT(Positions(kKey, 7), IsEmpty());
  EXPECT_THAT(Positions(kKey, 8), ElementsAre(4, 5));
  EXPECT_THAT(Positions(other_session.key, 7), ElementsAre(1, 2, 3));
  EXPECT_THAT(Positions(other_tenant.key, 7), ElementsAre(1, 2, 3));
}

TEST_P(PurgeContractTest, RangesOfTheLivingGenerationGoExactly) {
  SessionChange change = NewSession(kKey, 12);
  change.row.pinned = {1, 2};
  MustCommit(change);
  // Two commits leave garbage of one generation before any of it is purged.
  for (const std::int64_t end : {5, 9}) {
    change = Following(change, 0);
    change.row.floor = end;
    change.row.watermark = end;
    change.garbage = {{1, end == 5 ? 3 : 5, end}};
    MustCommit(change);
  }
  EXPECT_GE(Purge(1000), 6);
  EXPECT_THAT(Positions(kKey, 1), ElementsAre(1, 2, 9, 10, 11, 12));
  EXPECT_EQ(Load(kKey)->active.size(), 6U);
}

TEST_P(PurgeContractTest, NoCallDeletesMoreThanItMayAndCallsGetThrough) {
  constexpr std::int64_t kRows = 1000;
  const SessionChange first = NewSession(kKey, kRows);
  MustCommit(first);
  SessionChange second = Following(first, 1);
  second.row.generation = 2;
  second.garbage = {{1, 0, first.row.next_position}};
  MustCommit(second);

  EXPECT_EQ(Purge(0), 0);
  EXPECT_EQ(Positions(kKey, 1).size(), 1000U);
  EXPECT_EQ(Purge(1), 1);
  EXPECT_GE(Positions(kKey, 1).size(), 999U);
  for (int calls = 0; Purge(70) == 70; ++calls) ASSERT_LT(calls, 20);
  EXPECT_THAT(Positions(kKey, 1), IsEmpty());
  EXPECT_EQ(Purge(70), 0);
  EXPECT_THAT(Positions(kKey, 2), ElementsAre(1001));
}

TEST_P(PurgeContractTest, LargeBodiesGoToo) {
  SessionChange first = NewSession(kKey, 0);
  for (int i = 0; i < 12; ++i) {
    MessageDraft message = NewMessage(first.row.next_position++, fmt::format("id {}", i));
    message.body = std::string(std::size_t{1} << 20, 'b');
    first.messages.push_back(message);
  }
  MustCommit(first);
  MustCommit(Deleting(first, 1'700'000'000'000'000));
  while (Purge(1000) == 1000) {
  }
  EXPECT_THAT(Positions(kKey, 1), IsEmpty());
}

TEST_P(PurgeContractTest, RequestsGoByAge) {
  SessionChange change = NewSession(kKey);
  for (int i = 0; i < 500; ++i) {
    change.requests.push_back({fmt::format("r{}", i), "f", "reply", 1000 + i});
  }
  MustCommit(change);
  // Those of before 1200: 0 to 199.
  EXPECT_EQ(Purge(60, 1700, 500), 60);
  EXPECT_EQ(Purge(1000, 1700, 500), 140);
  EXPECT_EQ(Purge(1000, 1700, 500), 0);
  EXPECT_FALSE(HasRequest(kKey, "r0"));
  EXPECT_FALSE(HasRequest(kKey, "r199"));
  EXPECT_TRUE(HasRequest(kKey, "r200"));
  EXPECT_TRUE(HasRequest(kKey, "r499"));

  // An id that was purged is free again.
  SessionChange again = Following(change);
  again.requests = {{"r0", "f", "reply", 5000}};
  EXPECT_EQ(CommitOne(again), CommitOutcome::kCommitted);
}

TEST_P(PurgeContractTest, TombstonesGoByAgeAndLivingSessionsNever) {
  const SessionKey old_key = {"tenant", "old"};
  const SessionKey new_key = {"tenant", "new"};
  for (const SessionKey& key : {kKey, old_key, new_key}) MustCommit(NewSession(key, 2));
  MustCommit(Deleting(NewSession(old_key, 2), 1000));
  MustCommit(Deleting(NewSession(new_key, 2), 2000));
  SessionChange idle = Following(NewSession(kKey, 2), 0);
  idle.row.update_us = 1;
  MustCommit(idle);

  while (Purge(100, 2500, 1000) == 100) {
  }
  EXPECT_FALSE(Load(old_key).has_value());
  EXPECT_TRUE(Load(new_key).has_value());
  EXPECT_TRUE(Load(kKey).has_value());
  EXPECT_THAT(Positions(old_key, 1), IsEmpty());
  EXPECT_THAT(Positions(new_key, 1), IsEmpty());
  EXPECT_EQ(Positions(kKey, 1).size(), 2U);
  EXPECT_EQ(CommitOne(NewSession(old_key, 1)), CommitOutcome::kCommitted);
}

TEST_P(PurgeContractTest, WhatWasStagedAndNeverPublishedGoesWithItsTombstone) {
  SessionChange staged = NewSession(kKey, 3, /*generation=*/7);
  staged.row.deleted = true;
  staged.row.update_us = 1000;
  staged.row.floor = staged.row.watermark = staged.row.next_position;
  staged.row.active_count = 0;
  staged.row.message_bytes = 1;
  staged.row.content_generation = 8;
  staged.row.next_content = 2;
  staged.contents = {NewMessage(1, "content")};
  staged.row.block_generation = 9;
  BlockState& block = staged.blocks.emplace_back();
  block.name = "vectors";
  block.entry_generation = 10;
  block.next_entry = 2;
  staged.entries = {{10, NewMessage(1, "")}};
  MustCommit(staged);
  const SessionChange other = NewSession({"tenant", "other"}, 3, 7);
  MustCommit(other);

  while (Purge(100, 1500, 1000) == 100) {
  }
  EXPECT_THAT(Positions(kKey, 7), ElementsAre(1, 2, 3));
  EXPECT_THAT(Positions(kKey, 10), ElementsAre(1));
  // The tombstone first, and then what it named.
  while (Purge(100, 2500, 1000) > 0) {
  }
  EXPECT_FALSE(Load(kKey).has_value());
  for (const std::uint64_t generation : std::initializer_list<std::uint64_t>{7, 8, 10}) {
    EXPECT_THAT(Positions(kKey, generation), IsEmpty()) << generation;
  }
  EXPECT_THAT(Positions(other.key, 7), ElementsAre(1, 2, 3));
}

INSTANTIATE_TEST_SUITE_P(Stores, PurgeContractTest, ::testing::ValuesIn(AllStores()),
                         StoreCaseName);

}  // namespace
}  // namespace memoryd
