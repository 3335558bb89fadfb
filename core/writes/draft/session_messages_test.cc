// UpdateMessage and DeleteMessage in drafts.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/model/message.h"
#include "core/model/session_config.h"
#include "core/storage/store.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/write.h"
#include "tests/support/session_draft_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;

class SessionMessagesTest : public SessionDraftTest {
 protected:
  WriteRequest Delete(std::vector<MessagePtr> messages) {
    return Named(commands::DeleteMessage(), std::move(messages));
  }
  WriteRequest Update(const MessagePtr& message, std::string text) {
    return Named(commands::UpdateMessage(), {message}, {{"user", std::move(text)}});
  }

  // All that a store would hold by now, by position.
  void Follow() {
    ASSERT_TRUE(change_.has_value());
    for (const PositionRange& range : change_->erase) {
      stored_.erase(stored_.lower_bound(range.begin), stored_.lower_bound(range.end));
    }
    for (const MessagePtr& message : change_->replaced) stored_.at(message->position) = message;
    for (const MessagePtr& message : change_->messages) stored_[message->position] = message;
  }
  // The session in memory is what a load would find, and its counts are right.
  void ExpectConsistent() {
    LoadedSession loaded;
    loaded.row = session_.row;
    std::int64_t tokens = 0, bytes = 0, active = 0;
    for (const auto& [position, message] : stored_) {
      bytes += static_cast<std::int64_t>(message->body.size());
      const auto& pinned = session_.row.pinned;
      if (position < session_.row.watermark &&
          std::find(pinned.begin(), pinned.end(), position) == pinned.end()) {
        if (position == session_.row.opening) loaded.active.push_back(message);
        continue;
      }
      loaded.active.push_back(message);
      tokens += message->token_count;
      ++active;
    }
    const Session read = Session::FromStore(std::move(loaded)).value();
    EXPECT_EQ(Bodies(session_.pinned), Bodies(read.pinned));
    EXPECT_EQ(Bodies(session_.active), Bodies(read.active));
    EXPECT_EQ(session_.content_bytes, read.content_bytes);
    EXPECT_EQ(session_.row.active_count, active);
    EXPECT_EQ(session_.row.active_tokens, tokens);
    EXPECT_EQ(session_.row.archived_count, static_cast<std::int64_t>(stored_.size()) - active);
    EXPECT_EQ(session_.row.message_bytes, bytes);
  }

  // `highest` is the position of the last message that was put.
  void ChangeSomehow(std::mt19937& random, std::int64_t& highest) {
    const std::int64_t revision = session_.row.revision;
    auto named = stored_.begin();
    if (!stored_.empty()) std::advance(named, random() % stored_.size());
    switch (stored_.empty() ? 0 : random() % 4) {
      case 1:
        MustStore(Update(named->second, random() % 2 == 0 ? "x" : "some more words"));
        EXPECT_EQ(session_.row.edit_revision, revision + 1);
        break;
      case 2: {
        std::vector<MessagePtr> messages = {named->second};
        if (++named != stored_.end() && random() % 2 == 0) messages.push_back(named->second);
        MustStore(Delete(messages));
        EXPECT_EQ(session_.row.edit_revision, revision + 1);
        break;
      }
      default:
        MustStore(Plain(commands::Put(), {{random() % 3 == 0 ? "system" : "user", "word"}}));
        EXPECT_GT(change_->messages.front()->position, highest);
        highest = change_->messages.front()->position;
    }
  }

  std::map<std::int64_t, MessagePtr> stored_;
};

TEST_F(SessionMessagesTest, RandomChangesKeepCountsAndOrder) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    session_ = Session::Absent();
    stored_.clear();
    CreateSmall(seed % 2 == 0 ? Profile::kDefault : Profile::kLlamaIndex);
    std::mt19937 random(seed);
    std::int64_t highest = 0;
    for (int step = 0; step < 120; ++step) {
      ChangeSomehow(random, highest);
      Follow();
      ExpectConsistent();
      if (HasFailure()) FAIL() << "seed " << seed << " step " << step;
    }
  }
}

TEST_F(SessionMessagesTest, WhatWasFoundBeforeAnotherChangeIsLookedForAnew) {
  FillSmall();
  const MessagePtr message = session_.active.back();
  WriteRequest late = Update(message, "late");
  WriteRequest archived = Update(session_.active.front(), "late");
  MustStore(Plain(commands::Put(), {{"user", "put"}}));
  ASSERT_EQ(session_.active.front(), message);
  ExpectRefused(std::move(archived), absl::StatusCode::kAborted, "MESSAGE_CHANGED");
  MustStore(std::move(late));
  late = Update(message, "later");
  MustStore(Delete({session_.active.front()}));
  ExpectRefused(std::move(late), absl::StatusCode::kAborted, "MESSAGE_CHANGED");
  late = Delete({session_.active.front()});
  MustStore(Reset(ResetScope::kActive));
  ExpectRefused(std::move(late), absl::StatusCode::kAborted, "MESSAGE_CHANGED");
  late = Delete({message});
  MustStore(Reset(ResetScope::kEverything));
  ExpectRefused(std::move(late), absl::StatusCode::kAborted, "MESSAGE_CHANGED");
}

TEST_F(SessionMessagesTest, WhatIsNotFoundIsRefusedForItsReason) {
  FillSmall();
  WriteRequest request = Delete({});
  request.found->status = absl::NotFoundError("gone");
  ExpectRefused(std::move(request), absl::StatusCode::kNotFound, "");
  MustStore(Plain(commands::DeleteSession()));
  ExpectRefused(Delete({}), absl::StatusCode::kNotFound, "SESSION_NOT_FOUND");
}

TEST_F(SessionMessagesTest, PinnedMessagesGoAndNothingIsPinnedBehindAGap) {
  CreateSmall();
  MustStore(Plain(commands::Put(), {{"system", "a"}, {"system", "b"}, {"user", "c"}}));
  MustStore(Delete({session_.pinned[0]}));
  EXPECT_THAT(session_.row.pinned, ElementsAre(2));
  EXPECT_THAT(change_->erase.size(), 1U);
  MustStore(Delete({session_.active.front()}));
  MustStore(Plain(commands::Put(), {{"system", "late"}}));
  EXPECT_THAT(session_.row.pinned, ElementsAre(2));
  MustStore(Delete({session_.pinned[0]}));
  MustStore(Delete({session_.active.front()}));
  EXPECT_EQ(session_.row.active_count, 0);
  MustStore(Plain(commands::Put(), {{"system", "first again"}}));
  EXPECT_THAT(session_.row.pinned, ElementsAre(5));
}

TEST_F(SessionMessagesTest, ToolIdsStayWithTheirMessage) {
  CreateSmall();
  WriteRequest put = Plain(commands::Put(), {{"assistant", "calls"}});
  ItemsOf(put).messages[0].message.ids.value().calls = {"a", "b"};
  MustStore(std::move(put));
  const MessagePtr message = session_.active.front();
  ExpectRefused(Update(message, "x"), absl::StatusCode::kFailedPrecondition, "TOOL_PAIR");
  WriteRequest same = Update(message, "x");
  ItemsOf(same).messages[0].message.ids.value().calls = {"b", "a"};
  MustStore(std::move(same));
  EXPECT_THAT(session_.active.front()->ids->calls, ElementsAre("b", "a"));
  EXPECT_EQ(session_.active.front()->role, Role::kAssistant);
}

}  // namespace
}  // namespace memoryd
