#include "core/reads/session_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/model/job.h"
#include "core/model/session.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Messages 1 to 10, of which those from 4 on are active and 1 is pinned, and 5 contents.
SessionRow Row() {
  SessionRow row;
  row.generation = 7;
  row.revision = 3;
  row.next_position = 11;
  row.watermark = 4;
  row.pinned = {1};
  row.active_count = 8;
  row.archived_count = 2;
  row.content_generation = 9;
  row.next_content = 6;
  row.content_count = 5;
  row.create_us = 100;
  row.config = "{}";
  return row;
}

BlockState Block(const std::string& name, const std::string& state, std::int64_t done = 0,
                 std::int64_t next = 1) {
  BlockState block;
  block.name = name;
  block.state = state;
  block.done = done;
  block.next = next;
  return block;
}

SessionState Make(const SessionRow& row, const std::vector<BlockState>& blocks = {}) {
  std::vector<std::shared_ptr<const BlockState>> states;
  for (const BlockState& block : blocks) states.push_back(std::make_shared<BlockState>(block));
  return StateOf(row, states);
}

// What is told after the row has been changed.
template <typename Change>
StateChanges After(const Change& change) {
  SessionRow row = Row();
  ++row.revision;
  change(row);
  return ChangesBetween(Make(Row()), Make(row));
}

TEST(SessionStateTest, ACommitThatChangesNothingOfItIsNoNews) {
  EXPECT_THAT(After([](SessionRow& row) { row.update_us = 5; }).changes, IsEmpty());
}

TEST(SessionStateTest, PutsAreToldWithWhereTheyBegin) {
  const StateChanges news = After([](SessionRow& row) {
    row.next_position += 3;
    row.active_count += 3;
  });
  EXPECT_THAT(news.changes, ElementsAre(StateChange::kMessagesPut));
  EXPECT_EQ(news.first_new_position, 11);
}

TEST(SessionStateTest, MessagesThatLeaveAreTold) {
  const StateChanges news = After([](SessionRow& row) {
    row.next_position += 1;
    row.watermark += 2;
    row.active_count -= 1;
    row.archived_count += 2;
  });
  EXPECT_THAT(news.changes, ElementsAre(StateChange::kMessagesPut, StateChange::kMessagesArchived));
}

TEST(SessionStateTest, PinnedMessagesStayThoughTheWatermarkPassesThem) {
  SessionRow before = Row();
  before.pinned = {};
  before.next_position = before.watermark = 1;
  before.active_count = before.archived_count = 0;
  SessionRow after = before;
  ++after.revision;
  after.next_position = 4;
  after.pinned = {1, 2};
  after.watermark = 3;
  after.active_count = 3;
  EXPECT_THAT(ChangesBetween(Make(before), Make(after)).changes,
              ElementsAre(StateChange::kMessagesPut));
}

TEST(SessionStateTest, RetentionIsARemoval) {
  EXPECT_THAT(After([](SessionRow& row) {
                row.floor = 3;
                row.archived_count = 1;
              }).changes,
              ElementsAre(StateChange::kMessagesRemoved));
}

TEST(SessionStateTest, AResetOfTheActiveOnesIsARemoval) {
  EXPECT_THAT(After([](SessionRow& row) {
                row.watermark = row.next_position;
                row.active_count = 0;
              }).changes,
              ElementsAre(StateChange::kMessagesArchived, StateChange::kMessagesRemoved));
}

TEST(SessionStateTest, ASetReplacesAllThatWasKnown) {
  EXPECT_THAT(After([](SessionRow& row) {
                row.generation = 8;
                row.next_position += 2;
                row.content_generation = 0;
              }).changes,
              ElementsAre(StateChange::kMessagesReplaced, StateChange::kContentsReplaced));
}

TEST(SessionStateTest, ADeletedMessageIsAnEdit) {
  EXPECT_THAT(After([](SessionRow& row) {
                row.edit_revision = row.revision;
                --row.active_count;
              }).changes,
              ElementsAre(StateChange::kItemsEdited));
}

TEST(SessionStateTest, ContentsAreTold) {
  EXPECT_THAT(After([](SessionRow& row) { ++row.next_content; }).changes,
              ElementsAre(StateChange::kContentsPut));
  SessionRow without = Row();
  without.content_generation = 0;
  EXPECT_THAT(ChangesBetween(Make(without), Make(Row())).changes,
              ElementsAre(StateChange::kContentsPut));
}

TEST(SessionStateTest, BlocksAreToldByName) {
  const SessionState before =
      Make(Row(), {Block("a", "x", 1, 2), Block("b", "y"), Block("c", ""), Block(".usage", "1")});
  const auto news = ChangesBetween(before, Make(Row(), {Block("a", "x", 1, 2), Block("b", "z"),
                                                        Block("d", "w"), Block(".usage", "2")}));
  EXPECT_THAT(news.changes, ElementsAre(StateChange::kBlocks));
  EXPECT_THAT(news.blocks, ElementsAre("b", "d"));
  const auto gone = ChangesBetween(before, Make(Row(), {Block("b", "y")}));
  EXPECT_THAT(gone.changes, ElementsAre(StateChange::kBlocks, StateChange::kJobs));
  EXPECT_THAT(gone.blocks, ElementsAre("a"));
}

TEST(SessionStateTest, EntriesAreKnowledge) {
  BlockState vectors = Block("v", "s");
  const SessionState before = Make(Row(), {vectors});
  ++vectors.next_entry;
  EXPECT_THAT(ChangesBetween(before, Make(Row(), {vectors})).blocks, ElementsAre("v"));
}

TEST(SessionStateTest, JobsThatAreMadeOrEndAreTold) {
  const auto jobs = [](std::int64_t done, std::int64_t next) {
    return ChangesBetween(Make(Row(), {Block("a", "x", 1, 2)}),
                          Make(Row(), {Block("a", "x", done, next)}))
        .changes;
  };
  EXPECT_THAT(jobs(1, 3), ElementsAre(StateChange::kJobs));
  EXPECT_THAT(jobs(2, 2), ElementsAre(StateChange::kJobs));
  EXPECT_THAT(jobs(1, 2), IsEmpty());
}

TEST(SessionStateTest, BlocksThatBeginAnewAreToldThoughTheyKnowTheSame) {
  SessionRow row = Row();
  row.block_generation = 5;
  const auto news =
      ChangesBetween(Make(Row(), {Block("a", "x", 1, 2)}), Make(row, {Block("a", "x", 1, 2)}));
  EXPECT_THAT(news.changes, ElementsAre(StateChange::kBlocks, StateChange::kJobs));
}

TEST(SessionStateTest, TheConfigurationIsCompared) {
  EXPECT_THAT(After([](SessionRow& row) { row.config = "{\"a\":1}"; }).changes,
              ElementsAre(StateChange::kConfig));
}

TEST(SessionStateTest, ADeletedSessionAndOneThatFollowedItAreTheEnd) {
  EXPECT_THAT(After([](SessionRow& row) {
                row.deleted = true;
                row.next_position = 1;
              }).changes,
              ElementsAre(StateChange::kDeleted));
  EXPECT_THAT(After([](SessionRow& row) { row.create_us = 200; }).changes,
              ElementsAre(StateChange::kDeleted));
  EXPECT_THAT(ChangesBetween(Make(Row()), SessionState()).changes,
              ElementsAre(StateChange::kDeleted));
}

TEST(SessionStateTest, ItKeepsNothingThatIsLarge) {
  SessionRow row = Row();
  row.config = std::string(1 << 20, 'c');
  const SessionState state = Make(row, {Block("a", std::string(1 << 20, 's'))});
  EXPECT_LT(state.ByteSize(), 1000U);
  EXPECT_TRUE(state.row.config.empty());
  EXPECT_GE(state.stored_bytes, 1 << 20);
}

}  // namespace
}  // namespace memoryd
