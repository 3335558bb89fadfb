#include "core/writes/draft/block_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/model/session_config.h"
#include "core/sessions/oldest_messages.h"
#include "core/sessions/session.h"
#include "core/storage/store.h"
#include "tests/support/fake_clock.h"

namespace memoryd {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class BlockLedgerTest : public ::testing::Test {
 protected:
  BlockLedgerTest() { blocks_[0].name = "facts"; }

  BlockLedger NewLedger() { return BlockLedger(session_, 1000, random_); }

  SessionChange Commit(BlockLedger& ledger) {
    SessionChange change;
    session_.row.block_generation = ledger.generation();
    ledger.TakeChange({"tenant", "session"}, change);
    ledger.ApplyTo(session_);
    return change;
  }

  std::size_t StateBytes() const {
    std::size_t bytes = 0;
    for (const auto& [name, state] : session_.blocks) bytes += ByteSize(*state);
    return bytes;
  }

  std::uint64_t next_random_ = 0;
  FakeRandom random_{[this] { return next_random_++; }};
  std::vector<BlockSettings> blocks_ = std::vector<BlockSettings>(1);
  Session session_ = Session::Absent();
};

TEST_F(BlockLedgerTest, AFirstJobMakesTheGenerationAndItIsNotZero) {
  BlockLedger ledger = NewLedger();
  ledger.AddJob("facts", 7, {3, 5});
  EXPECT_EQ(ledger.generation(), 1U);
  const SessionChange change = Commit(ledger);
  ASSERT_THAT(change.jobs, SizeIs(1));
  EXPECT_EQ(change.jobs.front().key.session.session, "session");
  EXPECT_EQ(change.jobs.front().key.generation, 1U);
}

TEST_F(BlockLedgerTest, ACopyChangesAlone) {
  BlockLedger ledger = NewLedger();
  BlockLedger copy = ledger;
  copy.Change("facts").state = "{}";
  EXPECT_EQ(ledger.Find("facts"), nullptr);
}

TEST_F(BlockLedgerTest, CountsTheBytesOfStatesThatAreAddedChangedAndRemoved) {
  for (const std::string state : {"short", "a longer state than before", ""}) {
    BlockLedger ledger = NewLedger();
    ledger.MakeGeneration();
    ledger.Change("facts").state = state;
    Commit(ledger);
    EXPECT_EQ(session_.content_bytes, StateBytes());
  }
  BlockLedger ledger = NewLedger();
  ledger.RemoveAll(blocks_);
  EXPECT_THAT(Commit(ledger).garbage, SizeIs(1));
  EXPECT_EQ(session_.content_bytes, 0U);
  EXPECT_THAT(session_.blocks, IsEmpty());
}

TEST_F(BlockLedgerTest, WhatIsStillToBeFedIsKnownOfItsOwnJobsAlone) {
  BlockLedger first = NewLedger();
  EXPECT_EQ(first.FirstToFeed(blocks_, 7), kNothingToFeed);
  first.AddJob("facts", 7, {3, 5});
  EXPECT_EQ(first.FirstToFeed(blocks_, 7), 3);
  EXPECT_EQ(first.FirstToFeed(blocks_, 8), kNothingToFeed);
  Commit(first);
  EXPECT_EQ(NewLedger().FirstToFeed(blocks_, 7), 0);
}

TEST_F(BlockLedgerTest, ABlockThatIsRemovedKeepsItsNumbersAndEndsItsJobs) {
  BlockLedger first = NewLedger();
  first.AddJob("facts", 7, {3, 5});
  Commit(first);
  BlockLedger second = NewLedger();
  second.Remove("facts");
  EXPECT_THAT(Commit(second).ended_jobs, SizeIs(1));
  BlockLedger third = NewLedger();
  third.AddJob("facts", 7, {5, 6});
  EXPECT_EQ(third.jobs().back().key.number, 2);
}

}  // namespace
}  // namespace memoryd
