// The sweeper's work on sessions whose time is over.
#include "core/engine/session_expiry.h"

#include <gmock/gmock.h>

#include "tests/support/engine_fixture.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kTtl = 16 * kSecond;

class SessionExpiryTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    StartQuiet(Coherence::kExclusive);
  }
  // Sweeps only when a test does.
  void StartQuiet(Coherence coherence) {
    EngineOptions options = Options(coherence);
    options.sweep_interval = std::chrono::hours(1);
    Start(std::move(options));
    expiry_ = MakeExpiry(*engine_);
  }
  std::unique_ptr<SessionExpiry> MakeExpiry(Engine& engine) {
    SessionExpiry::Options options;
    options.store = store_.get();
    options.cache = &engine.cache();
    options.stats = &stats_;
    options.submit = [&engine](WriteRequest write, Write::Done done) {
      engine.Submit(std::move(write), std::move(done));
    };
    options.now_us = [this] { return now_us_.load(); };
    options.stopping = [] { return false; };
    return std::make_unique<SessionExpiry>(std::move(options));
  }

  static SessionSettings With(RetentionSettings retention) {
    SessionSettings settings = WordSettings();
    settings.policy = PolicyKind::kBuffer;
    settings.retention = retention;
    return settings;
  }
  void Put(const SessionKey& key, RetentionSettings retention, const std::string& text = "a") {
    WriteRequest put = NewPut(key, {{"user", text}});
    put.settings = With(retention);
    MustDo(std::move(put));
  }
  SessionInfo Info(const SessionKey& key) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<SessionInfo>>>();
    auto future = promise->get_future();
    engine_->GetSession(key, Far(), [promise](absl::StatusOr<SessionInfo> info) {
      promise->set_value(Detached(std::move(info)));
    });
    auto info = Await(std::move(future));
    EXPECT_TRUE(info.ok()) << info.status();
    return info.value_or(SessionInfo());
  }
  void NoteRead(const SessionKey& key) {
    const SessionInfo info = Info(key);
    expiry_->NoteRead(key, info.row, *info.config);
  }

  EngineStats stats_;
  std::unique_ptr<SessionExpiry> expiry_;
};

TEST_F(SessionExpiryTest, OnlySessionsWhoseTimeIsOverGo) {
  for (const Coherence coherence : {Coherence::kExclusive, Coherence::kShared}) {
    StartQuiet(coherence);
    const std::string tenant = coherence == Coherence::kShared ? "shared" : "exclusive";
    const std::uint64_t before = stats_.expired_sessions;
    for (int i = 0; i < 200; ++i) {
      Put({tenant, "due " + std::to_string(i)}, {kTtl, {}, {}, {}});
    }
    Put({tenant, "plain"}, {});
    Put({tenant, "longer"}, {10 * kTtl, {}, {}, {}});
    expiry_->Sweep();
    EXPECT_EQ(stats_.expired_sessions, before);
    now_us_ += 2 * kTtl;
    Put({tenant, "due 7"}, {kTtl, {}, {}, {}}, "b");
    expiry_->Sweep();
    // With the one that the first round has left.
    EXPECT_EQ(stats_.expired_sessions, before + (coherence == Coherence::kShared ? 200 : 199));
    EXPECT_EQ(stats_.due_sessions, 0);
    EXPECT_FALSE(Info({tenant, "due 3"}).exists());
    EXPECT_THAT(Bodies({tenant, "due 7"}), ElementsAre("a", "b"));
    EXPECT_THAT(Bodies({tenant, "plain"}), ElementsAre("a"));
    EXPECT_THAT(Bodies({tenant, "longer"}), ElementsAre("a"));
    // The id is free.
    Put({tenant, "due 3"}, {}, "new");
    EXPECT_THAT(Bodies({tenant, "due 3"}), ElementsAre("new"));
  }
}

TEST_F(SessionExpiryTest, AReadCountsWhereItIsToCount) {
  const SessionKey read{"t", "read"};
  const SessionKey unread{"t", "unread"};
  Put(read, {kTtl, true, {}, {}});
  Put(unread, {kTtl, {}, {}, {}});
  now_us_ += kTtl / 2;
  const std::int64_t revision = Info(read).row.revision;
  NoteRead(read);
  NoteRead(unread);
  expiry_->FlushReads();
  EXPECT_EQ(Info(read).row.revision, revision);
  const std::int64_t until = Info(read).row.expire_us;
  EXPECT_GE(until, now_us_.load() + kTtl);
  // Every look at the clock takes a microsecond.
  now_us_ = until - 1000;
  expiry_->Sweep();
  EXPECT_TRUE(Info(read).exists());
  EXPECT_FALSE(Info(unread).exists());
  // Read again at the last moment, which nobody has stored yet.
  NoteRead(read);
  now_us_ += 1000;
  expiry_->Sweep();
  EXPECT_TRUE(Info(read).exists());
  now_us_ += 2 * kTtl;
  expiry_->Sweep();
  EXPECT_FALSE(Info(read).exists());
}

TEST_F(SessionExpiryTest, TheEngineNotesItsReads) {
  const SessionKey key{"t", "s"};
  EngineOptions options = Options();
  options.sweep_interval = std::chrono::hours(1);
  Start(std::move(options));
  Put(key, {kTtl, true, {}, {}});
  const std::int64_t before = Info(key).row.expire_us;
  now_us_ += kTtl / 2;
  EXPECT_THAT(Bodies(key), ElementsAre("a"));
  engine_.reset();
  const auto stored = real_->LoadSession(key);
  ASSERT_TRUE(stored.ok() && stored->has_value());
  EXPECT_GT((*stored)->row.expire_us, before);
}

TEST_F(SessionExpiryTest, WhatCouldNotBeStoredStaysNoted) {
  const SessionKey key{"t", "s"};
  Put(key, {kTtl, true, {}, {}});
  now_us_ += kTtl / 2;
  NoteRead(key);
  const std::int64_t before = Info(key).row.expire_us;
  store_->FailReads(absl::UnavailableError("down"));
  expiry_->FlushReads();
  store_->FailReads(absl::OkStatus());
  EXPECT_EQ(Info(key).row.expire_us, before);
  expiry_->FlushReads();
  EXPECT_GT(Info(key).row.expire_us, before);
}

TEST_F(SessionExpiryTest, OldMessagesGoWithoutAPut) {
  const SessionKey key{"t", "s"};
  WriteRequest put = NewPut(key, {});
  put.settings = With({{}, {}, {}, kTtl});
  // Three of five are archived.
  put.settings->policy = PolicyKind::kFifo;
  put.settings->token_limit = 20;
  put.settings->chat_history_token_ratio = 0.5;
  put.settings->token_flush_size = 1;
  MustDo(std::move(put));
  for (const char* text : {"a", "b"}) MustDo(NewWrite(WriteKind::kPut, key, {{"user", text}}));
  now_us_ += kTtl / 2;
  for (const char* text : {"c", "d", "e"}) MustDo(NewWrite(WriteKind::kPut, key, {{"user", text}}));
  EXPECT_EQ(Info(key).row.archived_count, 3);
  now_us_ += kTtl * 3 / 4;
  expiry_->Sweep();
  EXPECT_THAT(AllBodies(key), ElementsAre("c", "d", "e"));
  EXPECT_EQ(Info(key).row.archived_count, 1);
  EXPECT_EQ(Info(key).row.message_bytes, 3);
  now_us_ += 2 * kTtl;
  expiry_->Sweep();
  EXPECT_THAT(AllBodies(key), IsEmpty());
  EXPECT_EQ(Info(key).row.message_bytes, 0);
  EXPECT_TRUE(Info(key).exists());
  MustDo(NewWrite(WriteKind::kPut, key, {{"user", "f"}}));
  EXPECT_THAT(AllBodies(key), ElementsAre("f"));
}

TEST_F(SessionExpiryTest, ArchivedBytesThatAreTooMuchGoBehind) {
  const SessionKey key{"t", "s"};
  WriteRequest put = NewPut(key, {});
  put.settings = With({});
  put.settings->policy = PolicyKind::kFifo;
  put.settings->token_limit = 20;
  put.settings->chat_history_token_ratio = 0.5;
  put.settings->token_flush_size = 1;
  put.settings->retention.keep_bytes = 9;
  MustDo(std::move(put));
  for (const char* text : {"aaa", "bb", "c", "ddd", "ee", "f"}) {
    MustDo(NewWrite(WriteKind::kPut, key, {{"user", text}}));
  }
  EXPECT_EQ(Info(key).row.archived_count, 4);
  now_us_ += 2 * kSecond;
  expiry_->Sweep();
  EXPECT_THAT(AllBodies(key), ElementsAre("bb", "c", "ddd", "ee", "f"));
  EXPECT_EQ(Info(key).row.message_bytes, 9);
  expiry_->Sweep();
  EXPECT_EQ(Info(key).row.message_bytes, 9);
}

TEST_F(SessionExpiryTest, AnUpdateIsCarriedOutWithoutAPut) {
  const SessionKey key{"t", "s"};
  WriteRequest put = NewPut(key, std::vector<Line>(1000, Line{"user", "a"}));
  put.settings = With({});
  MustDo(std::move(put));
  WriteRequest update = NewWrite(WriteKind::kUpdateSession, key);
  update.settings.emplace();
  update.settings->retention.keep_messages = 3;
  MustDo(std::move(update));
  ++now_us_;
  expiry_->Sweep();
  EXPECT_EQ(Info(key).row.active_count, 3);
  EXPECT_EQ(AllBodies(key).size(), 3U);
  ASSERT_TRUE(real_->Purge({now_us_, std::int64_t{1} << 60, 1'000'000}).ok());
  const SessionRow row = Info(key).row;
  const auto rows = real_->ReadRange(key, row.generation, {0, row.next_position}, 2000, 1 << 20);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->size(), 3U);
}

TEST_F(SessionExpiryTest, SessionsThatCanNotBeHandledKeepNoneWaiting) {
  std::vector<SessionChange> broken;
  for (int i = 0; i < 1200; ++i) {
    SessionChange& change = broken.emplace_back();
    change.key = {"t", "broken " + std::to_string(i)};
    change.row.generation = change.row.commit_tag = static_cast<std::uint64_t>(i) + 1;
    change.row.revision = 1;
    change.row.config = "none";
    change.write_config = change.write_expire_us = change.write_drop_us = true;
    (i % 2 == 0 ? change.row.drop_us : change.row.expire_us) = 1 + i;
  }
  for (const CommitResult& result : real_->Commit(broken)) {
    ASSERT_EQ(result.outcome, CommitOutcome::kCommitted) << result.status;
  }
  for (int i = 0; i < 700; ++i) Put({"t", std::to_string(i)}, {kTtl, {}, {}, {}});
  const SessionKey old{"t", "old message"};
  Put(old, {{}, {}, {}, kTtl});
  now_us_ += 2 * kTtl;
  expiry_->Sweep();
  EXPECT_EQ(stats_.expired_sessions, 700U);
  EXPECT_THAT(AllBodies(old), IsEmpty());
  EXPECT_EQ(stats_.due_sessions, 1200) << "they are seen to be due";
}

TEST_F(SessionExpiryTest, TwoServersMaySweepAtOnce) {
  StartQuiet(Coherence::kShared);
  EngineOptions options = Options(Coherence::kShared);
  options.sweep_interval = std::chrono::hours(1);
  Engine second(store_.get(), std::move(options));
  const std::unique_ptr<SessionExpiry> other = MakeExpiry(second);
  for (int i = 0; i < 100; ++i) Put({"t", std::to_string(i)}, {kTtl, {}, {}, {}});
  now_us_ += 2 * kTtl;
  std::thread beside([&other] { other->Sweep(); });
  expiry_->Sweep();
  beside.join();
  EXPECT_EQ(stats_.expired_sessions, 100U);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(Info({"t", std::to_string(i)}).exists());
}

}  // namespace
}  // namespace memoryd
