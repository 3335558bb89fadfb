// Sessions that are written in pieces.
#include <gmock/gmock.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/storage/store.h"
#include "core/writes/command.h"
#include "core/writes/commands/staged.h"
#include "core/writes/draft/session_draft.h"
#include "core/writes/write.h"
#include "tests/support/session_draft_fixture.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Pointee;
using ::testing::UnorderedElementsAre;

class SessionStagedTest : public SessionDraftTest {
 protected:
  // Three messages, one of them archived, a content, and a block with two entries.
  static std::shared_ptr<StagedSession> NewStaged(std::uint64_t generation) {
    auto staged = std::make_shared<StagedSession>();
    SessionRow& row = staged->row;
    row.generation = generation;
    row.next_position = 10;
    row.watermark = 5;
    row.active_count = 2;
    row.archived_count = 1;
    row.active_tokens = 7;
    row.content_generation = generation + 1;
    row.next_content = 2;
    row.content_count = 1;
    row.block_generation = generation + 2;
    row.message_bytes = 30;
    row.content_bytes = 4;
    staged->settings.token_limit = 77;
    staged->config = std::make_shared<const SessionConfig>();
    BlockState& block = staged->blocks.emplace_back();
    block.name = "vectors";
    block.entry_generation = generation + 3;
    block.next_entry = 3;
    block.state = "known";
    staged->jobs.push_back({"vectors", {2, 4}});
    staged->usage = {1, 4, 34 + std::ssize(staged->settings.ToJson())};
    return staged;
  }

  WriteRequest Staged(WriteCommand command, std::shared_ptr<const StagedSession> staged) {
    std::visit(
        [&staged](auto& step) {
          if constexpr (requires { step.staged; }) step.staged = std::move(staged);
        },
        command);
    return Plain(std::move(command));
  }
  WriteRequest Rows(std::shared_ptr<const StagedSession> staged, std::int64_t position) {
    WriteRequest request = Staged(commands::AddStaged(), std::move(staged));
    MessageDraft message;
    message.position = position;
    message.body = "body";
    std::get<commands::AddStaged>(request.command).rows.messages = {message};
    return request;
  }
  static std::vector<std::uint64_t> Generations(const std::vector<Garbage>& garbage) {
    std::vector<std::uint64_t> generations;
    for (const Garbage& each : garbage) generations.push_back(each.generation);
    return generations;
  }
};

TEST_F(SessionStagedTest, NothingIsSeenUntilItIsPublished) {
  const auto staged = NewStaged(50);
  MustStore(Staged(commands::BeginStaged(), staged));
  EXPECT_FALSE(session_.exists());
  EXPECT_EQ(change_->row.generation, 50U);
  MustStore(Rows(staged, 9));
  EXPECT_THAT(change_->messages, ElementsAre(Pointee(Field(&Message::position, 9))));
  for (const SessionRow& row : {session_.row, change_->row}) {
    EXPECT_TRUE(row.deleted);
    EXPECT_EQ(row.floor, row.next_position);
    EXPECT_EQ(row.active_count + row.archived_count + row.content_count, 0);
  }
  EXPECT_THAT(change_->garbage, IsEmpty());

  WriteRequest publish = Staged(commands::PublishStaged(), staged);
  publish.request_id = "r";
  MustStore(std::move(publish));
  EXPECT_TRUE(session_.exists());
  EXPECT_EQ(session_.row.revision, 3);
  EXPECT_EQ(session_.row.watermark, 5);
  EXPECT_EQ(session_.row.active_tokens, 7);
  EXPECT_EQ(SessionSettings::FromJson(session_.row.config)->token_limit, 77);
  EXPECT_THAT(change_->garbage, IsEmpty());
  ASSERT_EQ(change_->blocks.size(), 1U);
  EXPECT_EQ(change_->blocks.front().state, "known");
  EXPECT_EQ(change_->blocks.front().next, 2);
  ASSERT_EQ(change_->jobs.size(), 1U);
  EXPECT_EQ(change_->jobs.front().message_generation, 50U);
  EXPECT_EQ(change_->jobs.front().key.number, 1);
  EXPECT_EQ(change_->requests.size(), 1U);
}

TEST_F(SessionStagedTest, WhoeverComesBetweenLeavesWhatWasStagedToTheSweeper) {
  const auto staged = NewStaged(50);
  MustStore(Staged(commands::BeginStaged(), staged));
  MustStore(Rows(staged, 1));
  const auto other = NewStaged(70);
  MustStore(Staged(commands::BeginStaged(), other));
  EXPECT_THAT(Generations(change_->garbage), UnorderedElementsAre(50, 51, 52));
  ExpectRefused(Rows(staged, 2), absl::StatusCode::kAborted, "SESSION_REPLACED");
  ExpectRefused(Staged(commands::DropStaged(), staged), absl::StatusCode::kAborted,
                "SESSION_REPLACED");

  MustStore(Plain(commands::CreateSession()));
  EXPECT_THAT(Generations(change_->garbage), UnorderedElementsAre(70, 71, 72));
  EXPECT_TRUE(session_.exists());
  for (const WriteCommand& command :
       std::vector<WriteCommand>{commands::BeginStaged(), commands::PublishStaged()}) {
    ExpectRefused(Staged(command, other), absl::StatusCode::kAlreadyExists, "SESSION_EXISTS");
  }
}

TEST_F(SessionStagedTest, WhatIsDroppedIsGarbageOnce) {
  const auto staged = NewStaged(50);
  MustStore(Staged(commands::BeginStaged(), staged));
  MustStore(Staged(commands::DropStaged(), staged));
  EXPECT_THAT(Generations(change_->garbage), UnorderedElementsAre(50, 51, 52));
  EXPECT_FALSE(session_.exists());
  ExpectRefused(Staged(commands::PublishStaged(), staged), absl::StatusCode::kAborted,
                "SESSION_REPLACED");
  MustStore(Plain(commands::CreateSession()));
  EXPECT_THAT(change_->garbage, IsEmpty());
}

TEST_F(SessionStagedTest, APieceIsCommittedWithoutOtherWrites) {
  const auto staged = NewStaged(50);
  MustStore(Staged(commands::BeginStaged(), staged));
  const auto add = [this](SessionDraft& draft, WriteRequest request) {
    Write write(std::move(request), place_, [](const absl::StatusOr<WriteReply>&) {});
    return draft.Add(write).kind;
  };
  const auto pieces = [&] {
    return std::vector<WriteRequest>{Rows(staged, 9), Staged(commands::PublishStaged(), staged),
                                     Staged(commands::DropStaged(), staged)};
  };
  for (WriteRequest& piece : pieces()) {
    SessionDraft before = NewDraft();
    ASSERT_EQ(add(before, piece), DecisionKind::kStore);
    EXPECT_EQ(add(before, Plain(commands::CreateSession())), DecisionKind::kRefused);
    SessionDraft after = NewDraft();
    ASSERT_EQ(add(after, Plain(commands::CreateSession())), DecisionKind::kStore);
    EXPECT_EQ(add(after, std::move(piece)), DecisionKind::kRefused);
  }
}

TEST_F(SessionStagedTest, ItsUsageCountsOnceItIsPublished) {
  const auto staged = NewStaged(50);
  for (const WriteCommand& command :
       std::vector<WriteCommand>{commands::BeginStaged(), commands::PublishStaged()}) {
    Write write(Staged(command, staged), place_, [](const absl::StatusOr<WriteReply>&) {});
    SessionDraft draft = NewDraft();
    EXPECT_EQ(draft.Growth(write), staged->usage);
    ASSERT_EQ(draft.Add(write).kind, DecisionKind::kStore);
    EXPECT_EQ(draft.Change(), std::holds_alternative<commands::PublishStaged>(command)
                                  ? staged->usage
                                  : TenantUsage());
    draft.ApplyTo(session_);
  }
}

}  // namespace
}  // namespace memoryd
