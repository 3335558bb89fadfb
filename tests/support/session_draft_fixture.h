// A session in memory and the drafts of its writes.
#ifndef MEMORYD_TESTS_SUPPORT_SESSION_DRAFT_FIXTURE_H_
#define MEMORYD_TESTS_SUPPORT_SESSION_DRAFT_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/writes/draft/session_draft.h"
#include "tests/support/fake_clock.h"
#include "tests/support/writes.h"

namespace memoryd {

// Its commits always succeed.
class SessionDraftTest : public ::testing::Test {
 protected:
  using DecisionKind = SessionDraft::Decision::Kind;

  inline static const SessionKey kKey{"tenant", "session"};

  static constexpr std::int64_t kAnyCost = std::numeric_limits<std::int64_t>::max();

  SessionDraft NewDraft() { return SessionDraft(session_, rules_, now_us_, random_); }

  // Also counts what takes long, as the engine does.
  SessionDraft::Decision Add(SessionDraft& draft, WriteRequest request) {
    Write write(std::move(request), place_, [](const absl::StatusOr<WriteReply>&) {});
    SessionDraft::Decision decision = draft.Add(write);
    if (decision.kind != DecisionKind::kCount) return decision;
    CountProgress progress;
    const auto all =
        rules_.CountWithin(*write.count_with, ItemsOf(write.request.command), kAnyCost, progress);
    EXPECT_TRUE(all.ok() && *all) << all.status();
    write.token_counts = std::move(progress.counts);
    write.counted_with = write.count_with;
    return draft.Add(write);
  }

  // One write in a draft of its own, committed if it is to be stored.
  SessionDraft::Decision Apply(WriteRequest request) {
    SessionDraft draft = NewDraft();
    SessionDraft::Decision decision = Add(draft, std::move(request));
    change_.reset();
    if (decision.kind == DecisionKind::kStore) {
      change_ = draft.TakeChange(kKey);
      draft.ApplyTo(session_);
    }
    return decision;
  }

  void MustStore(WriteRequest request) {
    const SessionDraft::Decision decision = Apply(std::move(request));
    ASSERT_EQ(decision.kind, DecisionKind::kStore) << decision.status;
  }

  void ExpectRefused(WriteRequest request, absl::StatusCode code, const std::string& reason) {
    const SessionRow before = session_.row;
    const SessionDraft::Decision decision = Apply(std::move(request));
    EXPECT_EQ(decision.kind, DecisionKind::kRefused);
    EXPECT_EQ(decision.status.code(), code) << decision.status;
    EXPECT_EQ(ErrorReason(decision.status), reason);
    EXPECT_EQ(session_.row, before);
  }

  WriteRequest Put(std::vector<Line> lines) { return NewPut(kKey, std::move(lines)); }
  WriteRequest Plain(WriteCommand command, std::vector<Line> lines = {}) {
    return NewWrite(std::move(command), kKey, std::move(lines));
  }
  // Of these messages, found as they are now.
  WriteRequest Named(WriteCommand command, std::vector<MessagePtr> messages,
                     std::vector<Line> lines = {}) {
    WriteRequest request = Plain(std::move(command), std::move(lines));
    request.found.emplace();
    request.found->generation = session_.row.generation;
    request.found->revision = session_.row.revision;
    request.found->watermark = session_.row.watermark;
    request.found->messages = std::move(messages);
    return request;
  }
  WriteRequest WithSettings(WriteCommand command, SessionSettings settings) {
    WriteRequest request = Plain(std::move(command));
    SettingsOf(request) = std::move(settings);
    return request;
  }
  WriteRequest Reset(ResetScope scope) { return Plain(commands::Reset{scope}); }

  // Threshold 10 tokens, flushes of at least one: two messages of one word stay active.
  void CreateSmall(Profile profile = Profile::kDefault) {
    SessionSettings settings = WordSettings(profile);
    settings.token_limit = 20;
    settings.chat_history_token_ratio = 0.5;
    settings.token_flush_size = 1;
    MustStore(WithSettings(commands::CreateSession(), settings));
  }
  // Position 1 pinned, 2 archived, 3 and 4 active.
  void FillSmall() {
    CreateSmall();
    MustStore(
        Plain(commands::Put(), {{"system", "s"}, {"user", "a"}, {"user", "b"}, {"user", "c"}}));
    ASSERT_EQ(session_.row.watermark, 3);
  }

  std::vector<std::string> Bodies(const auto& messages) {
    std::vector<std::string> bodies;
    for (const MessagePtr& message : messages) bodies.emplace_back(message->body);
    return bodies;
  }

  TokenRules rules_{""};
  std::int64_t now_us_ = 1000;
  std::uint64_t next_random_ = 100;
  FakeRandom random_{[this] { return next_random_++; }};
  Session session_ = Session::Absent();
  std::shared_ptr<CachedSession> place_ = std::make_shared<CachedSession>(kKey);
  std::optional<SessionChange> change_;  // Of the latest Apply().
};

}  // namespace memoryd

#endif  // MEMORYD_TESTS_SUPPORT_SESSION_DRAFT_FIXTURE_H_
