// Random histories: what the cache holds after a commit is what a load from the store gives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/sessions/session.h"
#include "core/sessions/session_cache.h"
#include "core/storage/store.h"
#include "core/writes/command.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/draft/session_draft.h"
#include "core/writes/token_rules.h"
#include "core/writes/write.h"
#include "tests/support/fake_clock.h"
#include "tests/support/memory_store.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

constexpr int kSteps = 300;
const SessionKey kKey{"tenant", "session"};

void ExpectSame(const MessagePtr& cached, const MessagePtr& loaded) {
  EXPECT_EQ(cached->position, loaded->position);
  EXPECT_EQ(cached->ids->message_id, loaded->ids->message_id);
  EXPECT_EQ(cached->role, loaded->role);
  EXPECT_EQ(cached->token_count, loaded->token_count);
  EXPECT_EQ(cached->ingest_us, loaded->ingest_us);
  EXPECT_EQ(cached->body, loaded->body);
}

class RandomHistoryTest : public ::testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    auto store = OpenMemoryStore();
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  // 0 to `below` - 1. Not a distribution: those differ between libraries.
  std::uint64_t Pick(std::uint64_t below) { return generator_() % below; }

  std::vector<Line> RandomLines() {
    static constexpr const char* kRoles[] = {"user",      "user",   "assistant",
                                             "assistant", "system", "developer"};
    std::vector<Line> lines(Pick(6));
    for (Line& line : lines) {
      line.role = kRoles[Pick(std::size(kRoles))];
      for (std::uint64_t words = Pick(12); words > 0; --words) line.text += "word ";
      line.text += std::to_string(++message_count_);
      if (Pick(4) == 0) line.message_id = "id-" + std::to_string(message_count_);
    }
    return lines;
  }

  std::vector<Note> RandomNotes() {
    std::vector<Note> notes(Pick(3));
    for (Note& note : notes) {
      note.text = "note " + std::to_string(++message_count_);
      if (Pick(4) == 0) note.content_id = "id-" + std::to_string(message_count_);
    }
    return notes;
  }

  RetentionSettings RandomRetention() {
    RetentionSettings retention;
    if (Pick(2) == 0) retention.keep_messages = static_cast<std::int64_t>(Pick(12));
    if (Pick(4) == 0) retention.message_ttl_us = 1'000'000;
    if (Pick(4) == 0) retention.session_ttl_us = 1'000'000;
    if (Pick(4) == 0) retention.keep_bytes = static_cast<std::int64_t>(Pick(400));
    return retention;
  }

  SessionSettings RandomSettings() {
    SessionSettings settings =
        WordSettings(Pick(2) == 0 ? Profile::kDefault : Profile::kLlamaIndex);
    settings.token_limit = 20 + static_cast<std::int64_t>(Pick(100));
    settings.chat_history_token_ratio = 0.25 * static_cast<double>(Pick(5));
    settings.retention = RandomRetention();
    return settings;
  }

  WriteRequest RandomWrite(bool put) {
    static const WriteCommand kCommands[] = {commands::Set(), commands::Reset(),
                                             commands::UpdateSession(), commands::DeleteSession(),
                                             commands::Reset()};
    static constexpr ResetScope kScopes[] = {ResetScope::kProfile, ResetScope::kActive,
                                             ResetScope::kArchived, ResetScope::kMessages,
                                             ResetScope::kEverything};
    const WriteCommand command =
        put ? WriteCommand(commands::Put()) : kCommands[Pick(std::size(kCommands))];
    const bool has_messages = put || std::holds_alternative<commands::Set>(command);
    WriteRequest request =
        NewWrite(command, kKey, has_messages ? RandomLines() : std::vector<Line>());
    if (has_messages) request = WithContents(std::move(request), RandomNotes());
    const ResetScope scope = kScopes[Pick(std::size(kScopes))];
    if (auto* const reset = std::get_if<commands::Reset>(&request.command)) reset->scope = scope;
    if (std::holds_alternative<commands::UpdateSession>(command)) {
      SettingsOf(request) = SessionSettings();
      SettingsOf(request)->token_limit = 20 + static_cast<std::int64_t>(Pick(100));
      SettingsOf(request)->retention = RandomRetention();
    }
    if (put && !session_.exists()) SettingsOf(request) = RandomSettings();
    if (Pick(3) == 0) {
      request = WithRequestId(std::move(request), std::to_string(++request_count_));
    }
    if (Pick(10) == 0) request.expected_revision = static_cast<std::int64_t>(Pick(20));
    return request;
  }

  // One draft: some Puts, or one other write.
  void Step() {
    now_us_ += static_cast<std::int64_t>(Pick(100'000)) + 1;
    SessionDraft draft(session_, rules_, now_us_, random_);
    const bool puts = Pick(6) != 0 || !session_.exists();
    was_put_ = false;
    for (std::uint64_t left = puts ? 1 + Pick(4) : 1; left > 0; --left) {
      Write write(RandomWrite(puts), place_, {});
      if (draft.Add(write).kind != SessionDraft::Decision::Kind::kStore) continue;
      ++stored_;
      was_put_ = puts;
    }
    if (!draft.dirty()) return;
    const TenantUsage more = draft.Change();
    usage_.sessions += more.sessions;
    usage_.messages += more.messages;
    usage_.bytes += more.bytes;
    const SessionChange change = draft.TakeChange(kKey);
    const std::vector<CommitResult> results = store_->Commit({&change, 1});
    ASSERT_EQ(results[0].outcome, CommitOutcome::kCommitted) << results[0].status;
    has_kept_ = has_kept_ || draft.retired_messages() > 0;
    draft.ApplyTo(session_);
    if (session_.row.content_generation != 0) {
      content_generations_.insert(session_.row.content_generation);
    }
  }

  void ExpectCacheEqualsStore() {
    auto stored = store_->LoadSession(kKey, kAllActive);
    ASSERT_TRUE(stored.ok() && stored->has_value()) << stored.status();
    auto loaded = Session::FromStore(**std::move(stored));
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(session_.row, loaded->row);
    EXPECT_EQ(session_.row.config, loaded->row.config);
    EXPECT_EQ(*session_.config, *loaded->config);
    ASSERT_EQ(session_.pinned.size(), loaded->pinned.size());
    for (std::size_t i = 0; i < session_.pinned.size(); ++i) {
      ExpectSame(session_.pinned[i], loaded->pinned[i]);
    }
    ASSERT_EQ(session_.opening == nullptr, loaded->opening == nullptr);
    if (session_.opening) ExpectSame(session_.opening, loaded->opening);
    ASSERT_EQ(session_.active.size(), loaded->active.size());
    for (std::size_t i = 0; i < session_.active.size(); ++i) {
      ExpectSame(session_.active[i], loaded->active[i]);
    }
    EXPECT_EQ(session_.content_bytes, loaded->content_bytes + session_.recent_requests.bytes());
  }

  // Pinned messages, the one that opens the newest turn, and the newest one.
  std::int64_t Spared() const {
    const std::size_t size = session_.active.size();
    const bool opens = size > 1 && session_.active[size - 2]->role == Role::kUser &&
                       session_.active[size - 1]->role != Role::kUser;
    return std::ssize(session_.pinned) + (session_.opening || opens ? 1 : 0) + (size > 0 ? 1 : 0);
  }

  // The counts of the row are those of the messages.
  void ExpectCountsAddUp() {
    const SessionRow& row = session_.row;
    const auto active = static_cast<std::int64_t>(session_.pinned.size() + session_.active.size());
    EXPECT_EQ(row.active_count, active);
    const std::int64_t keep = session_.config->retention.keep_messages;
    // Where a Reset has left a gap among archived messages, the sweeper takes them.
    const bool left = row.drop_us > 0 && row.drop_us <= now_us_ + 1'000'001;
    if (keep > 0 && was_put_ && !left) {
      EXPECT_LE(active + row.archived_count, std::max(keep, Spared()));
    }
    const std::int64_t keep_bytes = session_.config->retention.keep_bytes;
    if (keep_bytes > 0 && was_put_ && !left && row.archived_count == 0 && active > Spared()) {
      EXPECT_LE(row.message_bytes, keep_bytes);
    }
    std::int64_t tokens = 0;
    for (const MessagePtr& message : session_.pinned) tokens += message->token_count;
    for (const MessagePtr& message : session_.active) tokens += message->token_count;
    EXPECT_EQ(row.active_tokens, tokens);
    EXPECT_LE(row.pinned.size(), kMaxPinned);
    EXPECT_LE(row.floor, row.watermark);
    EXPECT_LE(row.watermark, row.next_position);
  }

  // After the sweeper nothing is stored but what the row refers to, and all of that is.
  void ExpectNothingIsLeftBehind() {
    const SessionRow& row = session_.row;
    ASSERT_TRUE(store_->Purge({now_us_, std::int64_t{1} << 60, 1'000'000}).ok());
    auto rows = store_->ReadRange(kKey, row.generation, {0, row.next_position + 1}, 1'000'000,
                                  std::int64_t{1} << 40);
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_EQ(static_cast<std::int64_t>(rows->size()), row.active_count + row.archived_count);
    std::int64_t message_bytes = 0;
    for (const MessagePtr& message : *rows) message_bytes += std::ssize(message->body);
    // What goes of archived messages is taken off by its share.
    if (row.archived_count == 0 || !has_kept_) {
      EXPECT_EQ(message_bytes, row.message_bytes);
    }
    std::int64_t contents = 0;
    std::int64_t content_bytes = 0;
    for (const std::uint64_t generation : content_generations_) {
      auto stored = store_->ReadRange(kKey, generation, {0, row.next_content + 1}, 1'000'000,
                                      std::int64_t{1} << 40);
      ASSERT_TRUE(stored.ok()) << stored.status();
      EXPECT_TRUE(generation == row.content_generation || stored->empty());
      contents += static_cast<std::int64_t>(stored->size());
      for (const ContentPtr& content : *stored) content_bytes += std::ssize(content->body);
    }
    EXPECT_EQ(contents, row.content_count);
    EXPECT_EQ(content_bytes, row.content_bytes);
    const auto usage = store_->ReadUsage(kKey.tenant);
    ASSERT_TRUE(usage.ok()) << usage.status();
    EXPECT_EQ(*usage, usage_);
  }

  std::mt19937_64 generator_{GetParam()};
  std::unique_ptr<Store> store_;
  TokenRules rules_{""};
  FakeRandom random_{[this] { return generator_(); }};
  std::int64_t now_us_ = 0;
  int message_count_ = 0;
  int request_count_ = 0;
  int stored_ = 0;
  bool has_kept_ = false;
  bool was_put_ = false;                         // By the latest step.
  std::set<std::uint64_t> content_generations_;  // All there were.
  TenantUsage usage_;                            // Counted along.
  Session session_ = Session::Absent();
  std::shared_ptr<CachedSession> place_ = std::make_shared<CachedSession>(kKey);
};

TEST_P(RandomHistoryTest, TheCachedSessionEqualsTheStoredOneAfterEveryCommit) {
  std::int64_t revision = 0;
  std::int64_t next_position = 1;
  std::int64_t next_content = 1;
  for (int step = 0; step < kSteps && !HasFailure(); ++step) {
    SCOPED_TRACE(step);
    Step();
    if (HasFatalFailure() || session_.row.revision == 0) continue;
    EXPECT_GE(session_.row.revision, revision) << "revisions never fall";
    EXPECT_GE(session_.row.next_position, next_position) << "positions are never given twice";
    EXPECT_GE(session_.row.next_content, next_content);
    revision = session_.row.revision;
    next_position = session_.row.next_position;
    next_content = session_.row.next_content;
    ExpectCacheEqualsStore();
    ExpectCountsAddUp();
    if (step % 20 == 0) ExpectNothingIsLeftBehind();
  }
  ExpectNothingIsLeftBehind();
  EXPECT_GT(stored_, kSteps / 2) << "the history is worth little when most writes are refused";
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomHistoryTest, ::testing::Range(1U, 21U));

}  // namespace
}  // namespace memoryd
