// What Reset and Delete leave of a session, and how it goes on from there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "absl/status/status.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/draft/session_draft.h"
#include "tests/support/session_draft_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(SessionDraftTest, ResetOfEverythingLeavesTheSessionAndItsRevision) {
  for (const ResetScope scope :
       {ResetScope::kProfile, ResetScope::kMessages, ResetScope::kEverything}) {
    session_ = Session::Absent();
    FillSmall();
    const std::uint64_t before = session_.row.generation;
    EXPECT_EQ(Apply(Reset(scope)).reply, "revision 3 positions  archived 0 removed 3+1");
    EXPECT_TRUE(session_.exists());
    EXPECT_NE(session_.row.generation, before);
    EXPECT_EQ(session_.row.active_count + session_.row.archived_count, 0);
    EXPECT_EQ(session_.row.active_tokens, 0);
    EXPECT_EQ(session_.config->token_limit, 20);
    EXPECT_EQ(Apply(Plain(commands::Put(), {{"user", "next"}})).reply,
              "revision 4 positions 5 archived 0 removed 0+0");
  }
}

TEST_F(SessionDraftTest, ResetOfTheActiveKeepsTheArchived) {
  FillSmall();
  const std::uint64_t generation = session_.row.generation;
  EXPECT_EQ(Apply(Reset(ResetScope::kActive)).reply,
            "revision 3 positions  archived 0 removed 3+0");
  EXPECT_EQ(session_.row.generation, generation);
  EXPECT_THAT(session_.row.pinned, IsEmpty());
  EXPECT_EQ(session_.row.archived_count, 1);
  // The pinned message before the archived one is below the floor now.
  EXPECT_EQ(session_.row.floor, 2);
  EXPECT_EQ(session_.row.watermark, 5);
  ASSERT_EQ(change_->erase.size(), 1U);
  EXPECT_EQ(change_->erase[0].begin, 3);
  EXPECT_EQ(change_->erase[0].end, 5);
  ASSERT_EQ(change_->garbage.size(), 1u);
  EXPECT_EQ(change_->garbage.front().begin, 1);
  EXPECT_EQ(change_->garbage.front().end, 2);
  // With archived messages before it, nothing new is pinned.
  MustStore(Plain(commands::Put(), {{"system", "s"}}));
  EXPECT_THAT(session_.row.pinned, IsEmpty());
}

TEST_F(SessionDraftTest, ResetOfTheActiveLeavesAllRowsToTheSweeperWhereNothingIsArchived) {
  MustStore(Put({{"system", "s"}, {"user", "u"}}));
  MustStore(Reset(ResetScope::kActive));
  EXPECT_TRUE(change_->erase.empty());
  EXPECT_EQ(change_->garbage.front().begin, 1);
  EXPECT_EQ(change_->garbage.front().end, 3);
  EXPECT_EQ(session_.row.floor, 3);
  MustStore(Plain(commands::Put(), {{"system", "t"}}));
  EXPECT_THAT(session_.row.pinned, ElementsAre(3));
}

TEST_F(SessionDraftTest, ResetOfTheArchivedKeepsThePinnedAndTheActive) {
  FillSmall();
  EXPECT_EQ(Apply(Reset(ResetScope::kArchived)).reply,
            "revision 3 positions  archived 0 removed 0+1");
  EXPECT_EQ(session_.row.floor, 3);
  EXPECT_EQ(change_->garbage.front().begin, 2);
  EXPECT_EQ(change_->garbage.front().end, 3);
  EXPECT_THAT(Bodies(session_.pinned), ElementsAre("s"));
  EXPECT_THAT(Bodies(session_.active), ElementsAre("b", "c"));
  EXPECT_EQ(session_.row.active_count, 3);
}

TEST_F(SessionDraftTest, ResetAndDeleteOfAnUnknownSessionStoreNothing) {
  EXPECT_EQ(Apply(Reset(ResetScope::kProfile)).kind, DecisionKind::kUnchanged);
  const auto decision = Apply(Plain(commands::DeleteSession()));
  EXPECT_EQ(decision.kind, DecisionKind::kUnchanged);
  EXPECT_EQ(decision.reply, "revision 0 positions  archived 0 removed 0+0");
}

TEST_F(SessionDraftTest, ADeletedSessionComesBackWithHigherRevisionsAndPositions) {
  FillSmall();
  EXPECT_EQ(Apply(Plain(commands::DeleteSession())).reply,
            "revision 3 positions  archived 0 removed 3+1");
  EXPECT_FALSE(session_.exists());
  EXPECT_TRUE(change_->row.deleted);
  EXPECT_EQ(change_->row.config, "{}");
  EXPECT_EQ(session_.ByteSize(), 2 * session_.row.config.size());
  EXPECT_EQ(Apply(Plain(commands::DeleteSession())).kind, DecisionKind::kUnchanged);
  ExpectRefused(Plain(commands::UpdateSession()), absl::StatusCode::kNotFound, "SESSION_NOT_FOUND");
  ExpectRefused(WithRevision(Put({{"user", "x"}}), 3), absl::StatusCode::kAborted,
                "REVISION_MISMATCH");

  now_us_ = 2000;
  const std::uint64_t tombstone = session_.row.generation;
  EXPECT_EQ(Apply(WithRevision(Put({{"user", "x"}}), 0)).reply,
            "revision 4 positions 5 archived 0 removed 0+0");
  EXPECT_NE(session_.row.generation, tombstone);
  EXPECT_EQ(session_.row.create_us, 2000);
  EXPECT_EQ(session_.config->token_limit, 30000);
}

}  // namespace
}  // namespace memoryd
