#include "core/reads/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/model/message.h"
#include "core/model/session_config.h"
#include "core/reads/compose.h"
#include "core/sessions/session.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kNow = 1'000;

struct Row {
  Role role = Role::kUser;
  std::int64_t tokens = 1;
  std::vector<std::string> calls = {};
  std::vector<std::string> results = {};
  bool expired = false;
};

Row User(std::int64_t tokens) { return {Role::kUser, tokens}; }
Row Assistant(std::int64_t tokens) { return {Role::kAssistant, tokens}; }
Row Call(const std::string& id, std::int64_t tokens) { return {Role::kAssistant, tokens, {id}}; }
Row Result(const std::string& id, std::int64_t tokens) { return {Role::kTool, tokens, {}, {id}}; }
Row Expired(std::int64_t tokens) { return {Role::kUser, tokens, {}, {}, true}; }

MessagePtr Make(const Row& row, std::int64_t position) {
  MessageDraft draft;
  draft.position = position;
  draft.role = row.role;
  draft.token_count = row.tokens;
  draft.ids.value().calls = row.calls;
  draft.ids.value().results = row.results;
  if (row.expired) draft.ids.value().expire_us = kNow;
  return MessagePtr(draft);
}

// A session with these active messages, at positions from 11 on.
Session Make(const std::vector<Row>& rows, SessionConfig config) {
  Session session;
  session.row.revision = 1;
  session.row.generation = 1;
  session.row.watermark = 11;
  session.row.archived_count = 10;
  session.row.drop_us = 2;
  session.row.has_timed_items = true;
  for (const Row& row : rows) {
    session.active.push_back(Make(row, 11 + std::ssize(session.active)));
    session.row.active_tokens += row.tokens;
    ++session.row.active_count;
  }
  session.config = std::make_shared<const SessionConfig>(std::move(config));
  return session;
}

SessionConfig Limit(std::int64_t token_limit) {
  SessionConfig config;
  config.token_limit = token_limit;
  return config;
}

Explanation Of(const Session& session) {
  Session live = session;
  HideExpired(live, kNow);
  return Explain(session, live, Compose(live).messages);
}

LeftOut Range(std::int64_t first, std::int64_t last, std::int64_t tokens, LeftOutReason reason) {
  return {first, last, last - first + 1, tokens, reason};
}

TEST(ExplainTest, SaysTheLimitsAndTheWatermark) {
  SessionConfig config = Limit(1000);
  config.chat_history_token_ratio = 0.5;
  config.token_flush_size = 70;
  const Explanation explained = Of(Make({User(3), Assistant(4)}, config));
  EXPECT_EQ(explained.token_limit, 1000);
  EXPECT_EQ(explained.short_term_token_limit, 500);
  EXPECT_EQ(explained.token_flush_size, 70);
  EXPECT_EQ(explained.watermark, 10);
  EXPECT_EQ(explained.archived_count, 10);
  EXPECT_EQ(explained.opening_position, 0);
  EXPECT_EQ(explained.message_tokens, 7);
  EXPECT_EQ(explained.pinned_tokens, 0);
  EXPECT_THAT(explained.left_out, IsEmpty());
}

TEST(ExplainTest, WithPolicyBufferNothingLeavesForItsTokens) {
  SessionConfig config = Limit(1000);
  config.policy = PolicyKind::kBuffer;
  EXPECT_EQ(Of(Make({User(3)}, config)).short_term_token_limit, 0);
}

TEST(ExplainTest, PinnedAndOpeningMessagesCount) {
  Session session = Make({Assistant(4)}, Limit(1000));
  session.pinned.push_back(Make({Role::kSystem, 5}, 1));
  session.row.pinned = {1};
  session.opening = Make(User(6), 9);
  session.row.opening = 9;
  const Explanation explained = Of(session);
  EXPECT_EQ(explained.message_tokens, 15);
  EXPECT_EQ(explained.pinned_tokens, 5);
  EXPECT_EQ(explained.opening_position, 9);
}

TEST(ExplainTest, TurnsOverTheLimitAreOneRange) {
  EXPECT_THAT(
      Of(Make({User(3), Assistant(3), User(4), Assistant(4), User(5), Assistant(5)}, Limit(10)))
          .left_out,
      ElementsAre(Range(11, 14, 14, LeftOutReason::kTokenLimit)));
}

TEST(ExplainTest, ATurnThatIsCutKeepsItsOpeningMessage) {
  EXPECT_THAT(Of(Make({User(3), Assistant(30), Assistant(5)}, Limit(10))).left_out,
              ElementsAre(Range(12, 12, 30, LeftOutReason::kTokenLimit)));
}

TEST(ExplainTest, HalvesOfCallsAndWhatStandsBeforeTheHumanHaveTheirReasons) {
  EXPECT_THAT(
      Of(Make({Assistant(1), Result("gone", 2), User(3), Call("a", 4), Result("b", 5), User(6)},
              Limit(1000)))
          .left_out,
      ElementsAre(Range(11, 11, 1, LeftOutReason::kBeforeHuman),
                  Range(12, 12, 2, LeftOutReason::kResultWithoutCall),
                  Range(14, 14, 4, LeftOutReason::kCallWithoutResult),
                  Range(15, 15, 5, LeftOutReason::kResultWithoutCall)));
}

TEST(ExplainTest, ResultsThatAreAwaitedAreNoReason) {
  EXPECT_THAT(Of(Make({User(3), Call("a", 4)}, Limit(1000))).left_out, IsEmpty());
}

TEST(ExplainTest, WhatHasExpiredIsNamedBeforeItIsSwept) {
  EXPECT_THAT(Of(Make({User(1), Expired(2), Expired(3), Assistant(4)}, Limit(1000))).left_out,
              ElementsAre(Range(12, 13, 5, LeftOutReason::kExpired)));
}

TEST(ExplainTest, APinnedMessageThatHasExpiredIsNamedToo) {
  Session session = Make({User(1)}, Limit(1000));
  session.pinned = {Make({Role::kSystem, 5}, 1), Make({Role::kSystem, 6, {}, {}, true}, 2)};
  session.row.pinned = {1, 2};
  EXPECT_THAT(Of(session).left_out, ElementsAre(Range(2, 2, 6, LeftOutReason::kExpired)));
}

TEST(ExplainTest, ALibraryLeavesOutNothingForItsTokens) {
  SessionConfig config = Limit(1);
  config.counting.profile = Profile::kLlamaIndex;
  EXPECT_THAT(Of(Make({User(30), Assistant(4)}, config)).left_out, IsEmpty());
  Session edited = Make({Call("a", 4), User(30), Result("b", 1)}, config);
  edited.row.edit_revision = 1;
  edited.row.archived_count = 0;
  EXPECT_THAT(Of(edited).left_out,
              ElementsAre(Range(11, 11, 4, LeftOutReason::kCallWithoutResult),
                          Range(13, 13, 1, LeftOutReason::kResultWithoutCall)));
}

// Every active message is either returned or in one range, and what is over the limit alone comes
// back when there is none.
TEST(ExplainTest, AccountsForEachMessageOfRandomLogs) {
  std::mt19937 random(7);
  const auto below = [&random](unsigned bound) { return static_cast<int>(random() % bound); };
  for (int round = 0; round < 2000; ++round) {
    std::vector<Row> rows;
    for (int i = below(12); i > 0; --i) {
      const std::string id(1, static_cast<char>('a' + below(3)));
      const std::int64_t tokens = 1 + below(5);
      switch (below(6)) {
        case 0:
          rows.push_back(User(tokens));
          break;
        case 1:
          rows.push_back(Assistant(tokens));
          break;
        case 2:
          rows.push_back(Call(id, tokens));
          break;
        case 3:
          rows.push_back(Expired(tokens));
          break;
        default:
          rows.push_back(Result(id, tokens));
      }
    }
    const Session session = Make(rows, Limit(1 + below(30)));
    const Explanation explained = Of(session);
    std::int64_t left_out = 0;
    std::int64_t count = 0;
    std::int64_t after = 0;
    for (const LeftOut& range : explained.left_out) {
      EXPECT_GT(range.first_position, after);
      EXPECT_EQ(range.last_position - range.first_position + 1, range.messages);
      after = range.last_position;
      left_out += range.tokens;
      count += range.messages;
    }
    Session live = session;
    HideExpired(live, kNow);
    EXPECT_EQ(std::ssize(Compose(live).messages) + count, std::ssize(session.active));
    EXPECT_EQ(explained.message_tokens + left_out, session.row.active_tokens);

    Session unlimited = session;
    unlimited.config = std::make_shared<const SessionConfig>(Limit(1'000'000));
    const Explanation without = Of(unlimited);
    std::int64_t over = 0;
    for (const LeftOut& range : explained.left_out) {
      if (range.reason == LeftOutReason::kTokenLimit) over += range.tokens;
    }
    EXPECT_EQ(explained.message_tokens + over, without.message_tokens);
  }
}

}  // namespace
}  // namespace memoryd
