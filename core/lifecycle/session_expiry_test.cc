// The sweeper's work on sessions whose time is over.
#include "core/lifecycle/session_expiry.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <future>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/engine/engine.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/reads/page.h"
#include "core/recall/recall.h"
#include "core/recall/session_search.h"
#include "core/sessions/session_info.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"
#include "core/writes/command.h"
#include "core/writes/commands/messages.h"
#include "core/writes/found_messages.h"
#include "core/writes/write.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/swept_engine_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kTtl = 16 * kSecond;

class SessionExpiryTest : public SweptEngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    StartQuiet(Coherence::kExclusive);
  }
  // Sweeps only when a test does.
  void StartQuiet(Coherence coherence, std::int64_t max_active_bytes = kAllActive) {
    EngineOptions options = Options(coherence);
    options.max_active_bytes = max_active_bytes;
    StartSwept(std::move(options), max_active_bytes);
  }

  static SessionSettings With(RetentionSettings retention) {
    SessionSettings settings = WordSettings();
    settings.policy = PolicyKind::kBuffer;
    settings.retention = retention;
    return settings;
  }
  void Put(const SessionKey& key, RetentionSettings retention, const std::string& text = "a") {
    WriteRequest put = NewPut(key, {{"user", text}});
    SettingsOf(put) = With(retention);
    MustDo(std::move(put));
  }
  SessionInfo Info(const SessionKey& key) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<SessionInfo>>>();
    auto future = promise->get_future();
    engine_->reads().GetSession(key, Far(), [promise](absl::StatusOr<SessionInfo> info) {
      promise->set_value(Detached(std::move(info)));
    });
    auto info = Await(std::move(future));
    EXPECT_TRUE(info.ok()) << info.status();
    return info.value_or(SessionInfo());
  }
  void NoteRead(const SessionKey& key) {
    const SessionInfo info = Info(key);
    touches_.front()->NoteRead(key, info.row, *info.config);
  }
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
  touches_.front()->Flush();
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
  const auto stored = real_->LoadSession(key, kAllActive);
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
  touches_.front()->Flush();
  store_->FailReads(absl::OkStatus());
  EXPECT_EQ(Info(key).row.expire_us, before);
  touches_.front()->Flush();
  EXPECT_GT(Info(key).row.expire_us, before);
}

// Sessions whose active messages are too many to be held are swept without being read whole.
TEST_F(SessionExpiryTest, WhatIsTooLargeToBeHeldIsSwept) {
  const std::string text(1000, 'x');
  const SessionKey expires{"t", "expires"};
  const SessionKey old{"t", "old"};
  const SessionKey timed{"t", "timed"};
  for (int i = 0; i < 10; ++i) {
    Put(expires, {kTtl, {}, {}, {}}, text);
    Put(old, {{}, {}, {}, kTtl}, text + std::to_string(i));
    WriteRequest put = NewPut(timed, {{"user", text + std::to_string(i)}});
    if (i % 2 == 0) ItemsOf(put).messages.front().message.ids.value().expire_us = now_us_ + kTtl;
    SettingsOf(put) = With({});
    MustDo(std::move(put));
  }
  now_us_ += kTtl / 2;
  Put(old, {{}, {}, {}, kTtl}, text + "new");
  StartQuiet(Coherence::kExclusive, 3000);
  EXPECT_FALSE(Get(*engine_, old).ok());
  now_us_ += kTtl * 5 / 8;
  for (int i = 0; i < 3; ++i) {
    expiry_->Sweep();
    now_us_ += 2 * kSecond;
  }
  EXPECT_THAT(AllBodies(old), ElementsAre(text + "new"));
  EXPECT_THAT(Bodies(old), ElementsAre(text + "new"));
  EXPECT_THAT(AllBodies(timed),
              ElementsAre(text + "1", text + "3", text + "5", text + "7", text + "9"));
  now_us_ += kTtl;
  expiry_->Sweep();
  EXPECT_FALSE(Info(expires).exists());
}

TEST_F(SessionExpiryTest, TheRetentionOfALargeConfigurationHoldsToo) {
  const SessionKey key{"t", "s"};
  SessionSettings settings = With({{}, {}, {}, kTtl});
  BlockSettings block;
  block.name = "rules";
  block.kind = "static";
  settings.blocks = {block};
  settings.subject = std::string(kSmallConfigBytes, 's');
  WriteRequest put = NewPut(key, {{"user", "a"}});
  SettingsOf(put) = settings;
  MustDo(std::move(put));
  now_us_ += 2 * kTtl;
  expiry_->Sweep();
  EXPECT_THAT(AllBodies(key), IsEmpty());
  EXPECT_TRUE(Info(key).exists());
}

TEST_F(SessionExpiryTest, OldMessagesGoWithoutAPut) {
  const SessionKey key{"t", "s"};
  WriteRequest put = NewPut(key, {});
  SettingsOf(put) = With({{}, {}, {}, kTtl});
  // Three of five are archived.
  SettingsOf(put)->policy = PolicyKind::kFifo;
  SettingsOf(put)->token_limit = 20;
  SettingsOf(put)->chat_history_token_ratio = 0.5;
  SettingsOf(put)->token_flush_size = 1;
  MustDo(std::move(put));
  for (const char* text : {"a", "b"}) MustDo(NewWrite(commands::Put(), key, {{"user", text}}));
  now_us_ += kTtl / 2;
  for (const char* text : {"c", "d", "e"}) MustDo(NewWrite(commands::Put(), key, {{"user", text}}));
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
  MustDo(NewWrite(commands::Put(), key, {{"user", "f"}}));
  EXPECT_THAT(AllBodies(key), ElementsAre("f"));
}

TEST_F(SessionExpiryTest, ArchivedBytesThatAreTooMuchGoBehind) {
  const SessionKey key{"t", "s"};
  WriteRequest put = NewPut(key, {});
  SettingsOf(put) = With({});
  SettingsOf(put)->policy = PolicyKind::kFifo;
  SettingsOf(put)->token_limit = 20;
  SettingsOf(put)->chat_history_token_ratio = 0.5;
  SettingsOf(put)->token_flush_size = 1;
  SettingsOf(put)->retention.keep_bytes = 9;
  MustDo(std::move(put));
  for (const char* text : {"aaa", "bb", "c", "ddd", "ee", "f"}) {
    MustDo(NewWrite(commands::Put(), key, {{"user", text}}));
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
  SettingsOf(put) = With({});
  MustDo(std::move(put));
  WriteRequest update = NewWrite(commands::UpdateSession(), key);
  SettingsOf(update).emplace();
  SettingsOf(update)->retention.keep_messages = 3;
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

class TimedItemsTest : public SessionExpiryTest {
 protected:
  const SessionKey key_{"t", "s"};

  // Two messages of one word stay active.
  void Create(RetentionSettings retention = {}) {
    WriteRequest create = NewWrite(commands::CreateSession(), key_);
    SettingsOf(create) = With(retention);
    SettingsOf(create)->policy = PolicyKind::kFifo;
    SettingsOf(create)->token_limit = 20;
    SettingsOf(create)->chat_history_token_ratio = 0.5;
    SettingsOf(create)->token_flush_size = 1;
    MustDo(std::move(create));
  }
  void PutLine(const std::string& text, std::int64_t expire_us = 0,
               const std::string& role = "user") {
    MustDo(WithTimes(NewWrite(commands::Put(), key_, {{role, text}}), expire_us));
  }
  void PutNote(const std::string& text, std::int64_t expire_us = 0) {
    MustDo(WithTimes(WithContents(NewWrite(commands::Put(), key_), {{text}}), expire_us));
  }
  // Messages, then contents.
  std::vector<std::string> Listed(std::int64_t page_size = 1000) {
    std::vector<std::string> bodies;
    PageRequest request;
    request.key = key_;
    request.max_messages = page_size;
    request.include_contents = request.include_total = true;
    for (;;) {
      const auto page = ReadPage(request);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) return bodies;
      for (const MessagePtr& message : page->messages) bodies.emplace_back(message->body);
      for (const ContentPtr& content : page->contents) bodies.emplace_back(content->body);
      total_ = page->total_count.value_or(-1);
      if (page->next_position == 0 && page->next_content == 0) return bodies;
      request.generation = page->row.generation;
      request.from_position = page->next_position;
      request.from_content = page->next_content;
    }
  }
  std::vector<std::string> Queried(const std::string& query) {
    QueryRequest request;
    request.key = key_;
    request.query = query;
    request.shape.neighbours = 1;
    auto promise = std::make_shared<std::promise<absl::StatusOr<Found>>>();
    auto future = promise->get_future();
    engine_->Query(std::move(request), Far(), [promise](absl::StatusOr<Found> found) {
      promise->set_value(Detached(std::move(found)));
    });
    const auto found = Await(std::move(future));
    EXPECT_TRUE(found.ok()) << found.status();
    std::vector<std::string> bodies;
    if (!found.ok()) return bodies;
    for (const FoundItem& item : found->items) {
      bodies.emplace_back((item.message != nullptr ? item.message : item.content)->body);
      for (const MessagePtr& neighbour : item.neighbours) bodies.emplace_back(neighbour->body);
    }
    std::sort(bodies.begin(), bodies.end());
    return bodies;
  }
  // What the store has, visible or not.
  std::vector<std::string> Stored() {
    const SessionRow row = Info(key_).row;
    std::vector<std::string> bodies;
    for (const auto& [generation, end] : {std::pair(row.generation, row.next_position),
                                          std::pair(row.content_generation, row.next_content)}) {
      const auto rows = real_->ReadRange(key_, generation, {0, end}, 100'000, 1 << 24);
      EXPECT_TRUE(rows.ok()) << rows.status();
      for (const MessagePtr& item : *rows) bodies.emplace_back(item->body);
    }
    return bodies;
  }

  std::int64_t total_ = -1;
};

TEST_F(TimedItemsTest, NoReadReturnsThemAndTheSweeperTakesThemOutWhereverTheyStand) {
  for (const Coherence coherence : {Coherence::kExclusive, Coherence::kShared}) {
    StartQuiet(coherence);
    if (coherence == Coherence::kShared) MustDo(NewWrite(commands::DeleteSession(), key_));
    const std::int64_t at = now_us_ + 10 * kSecond;
    Create();
    PutLine("pinned x", at, "system");
    PutLine("pinned y", 0, "system");
    for (const char* text : {"a", "b x", "c", "d", "e"}) {
      PutLine(text, text == std::string("b x") || text == std::string("d") ? at : 0);
    }
    PutNote("n1");
    PutNote("n2 x", at);
    PutNote("n3");
    EXPECT_EQ(Info(key_).row.drop_us, at + at % 2);
    EXPECT_TRUE(Info(key_).row.has_timed_items);
    EXPECT_THAT(Queried("x"), ElementsAre("a", "b x", "c", "n2 x", "pinned x", "pinned y"));
    const std::vector<std::string> before = Stored();
    now_us_ = at - 100;
    expiry_->Sweep();
    EXPECT_EQ(Stored(), before);

    now_us_ = at + 1;
    EXPECT_THAT(Bodies(key_), ElementsAre("pinned y", "e"));
    for (const std::int64_t page_size : {1, 2, 1000}) {
      EXPECT_THAT(Listed(page_size), ElementsAre("pinned y", "a", "c", "e", "n1", "n3"));
      EXPECT_EQ(total_, 6);
    }
    EXPECT_THAT(Queried("x"), IsEmpty());
    EXPECT_EQ(Stored(), before) << "nobody has taken them out yet";
    expiry_->Sweep();
    EXPECT_THAT(Stored(), ElementsAre("pinned y", "a", "c", "e", "n1", "n3"));
    EXPECT_THAT(Bodies(key_), ElementsAre("pinned y", "e"));
    EXPECT_THAT(Listed(2), ElementsAre("pinned y", "a", "c", "e", "n1", "n3"));
    EXPECT_EQ(total_, 6);
    EXPECT_THAT(Queried("c"), ElementsAre("a", "c", "e"));
    const SessionRow row = Info(key_).row;
    EXPECT_EQ(row.active_count, 2);
    EXPECT_EQ(row.archived_count, 2);
    EXPECT_EQ(row.content_count, 2);
    EXPECT_EQ(row.message_bytes, 11);
    EXPECT_EQ(row.content_bytes, 4);
    EXPECT_EQ(row.drop_us, 0);
    EXPECT_FALSE(row.has_timed_items);
  }
}

TEST_F(TimedItemsTest, OneThatIsOverAlreadyIsRefused) {
  Create();
  for (WriteRequest& write :
       std::vector<WriteRequest>{NewWrite(commands::Put(), key_, {{"user", "a"}}),
                                 NewWrite(commands::Set(), key_, {{"user", "a"}}),
                                 WithContents(NewWrite(commands::Put(), key_), {{"n"}})}) {
    const std::string field = ItemsOf(write).contents.empty() ? "messages[0]" : "contents[0]";
    const WriteOutcome outcome = Do(WithTimes(std::move(write), now_us_));
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(outcome.status.message()),
                ::testing::HasSubstr(field + ".expire_time"));
  }
  EXPECT_THAT(Listed(), IsEmpty());
}

TEST_F(TimedItemsTest, UpdateMessageGivesAndTakesATime) {
  Create();
  MustDo(NewWrite(commands::Put(), key_, {{"user", "a", "1"}}));
  const auto update = [this](std::int64_t expire_us) {
    commands::UpdateMessage command;
    command.message_id = "1";
    command.edit = [this, expire_us](const FoundMessages& found, IncomingItems& items) {
      const std::string body(found.messages.front()->body);
      items =
          ItemsOf(WithTimes(NewWrite(commands::Put(), key_, {{"user", body}}), expire_us).command);
      return absl::OkStatus();
    };
    return Do(NewWrite(std::move(command), key_)).status;
  };
  EXPECT_EQ(update(now_us_).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(update(now_us_ + kSecond).ok());
  ASSERT_TRUE(update(0).ok());
  now_us_ += 2 * kSecond;
  expiry_->Sweep();
  EXPECT_THAT(Bodies(key_), ElementsAre("a"));
  ASSERT_TRUE(update(now_us_ + kSecond).ok());
  now_us_ += 2 * kSecond;
  EXPECT_EQ(ErrorReason(update(0)), "MESSAGE_NOT_FOUND");
  expiry_->Sweep();
  EXPECT_THAT(Stored(), IsEmpty());
}

TEST_F(TimedItemsTest, AMessagesTtlIsSeenBesideAFarTime) {
  Create({{}, {}, {}, kTtl});
  PutLine("far", now_us_ + 100 * kTtl);
  now_us_ += 2 * kTtl;
  expiry_->Sweep();
  EXPECT_THAT(Stored(), IsEmpty());
}

TEST_F(TimedItemsTest, ALargeSessionIsSeldomLookedThroughAndLosesSomeAtATime) {
  WriteRequest put = NewPut(key_, std::vector<Line>(900, Line{"user", "a"}));
  SettingsOf(put)->token_limit = 20;
  SettingsOf(put)->chat_history_token_ratio = 0.5;
  SettingsOf(put)->token_flush_size = 1;
  const std::int64_t at = now_us_ + kSecond;
  MustDo(WithTimes(std::move(put), at));
  PutLine("b", at + kSecond);
  PutLine("c");
  now_us_ = at + 1;
  expiry_->Sweep();
  EXPECT_THAT(Stored(), ::testing::SizeIs(402)) << "500 at a time";
  EXPECT_GE(Info(key_).row.drop_us, now_us_ + 850'000) << "a millisecond a row";
  EXPECT_THAT(Listed(), ElementsAre("b", "c"));
  now_us_ += 2 * kSecond;
  expiry_->Sweep();
  EXPECT_THAT(Stored(), ElementsAre("c"));
}

using TextsUntil = std::vector<std::pair<std::string, std::int64_t>>;

// The messages that have not expired at `at_us`, in order.
std::vector<std::string> TextsAt(std::int64_t at_us, const TextsUntil& messages,
                                 const TextsUntil& contents) {
  std::vector<std::string> texts;
  for (const TextsUntil* items : {&messages, &contents}) {
    for (const auto& [text, until_us] : *items) {
      if (until_us == 0 || until_us > at_us) texts.push_back(text);
    }
  }
  return texts;
}

TEST_F(TimedItemsTest, RandomTimesAgainstAModel) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    std::mt19937 random(seed);
    if (seed > 0) MustDo(NewWrite(commands::DeleteSession(), key_));
    Create(seed % 2 == 0 ? RetentionSettings() : RetentionSettings{{}, {}, {}, 1000 * kTtl});
    TextsUntil messages, contents;
    for (int step = 0; step < 150; ++step) {
      now_us_ += static_cast<std::int64_t>(random() % kSecond);
      const std::int64_t expire_us =
          random() % 3 == 0
              ? 0
              : now_us_ + 10'000 + static_cast<std::int64_t>(random() % (10 * kSecond));
      const std::string text = "w" + std::to_string(step);
      if (random() % 3 == 0) {
        PutNote(text, expire_us);
        contents.emplace_back(text, expire_us);
      } else {
        PutLine(text, expire_us, random() % 8 == 0 ? "system" : "user");
        messages.emplace_back(text, expire_us);
      }
      if (random() % 5 == 0) expiry_->Sweep();
      const auto expected = TextsAt(now_us_ + 100, messages, contents);
      ASSERT_EQ(Listed(7), expected) << seed << ' ' << step;
      ASSERT_EQ(total_, std::ssize(expected));
    }
    now_us_ += 100 * kSecond;
    expiry_->Sweep();
    now_us_ += 100 * kSecond;
    expiry_->Sweep();
    const auto left = TextsAt(now_us_, messages, contents);
    EXPECT_EQ(Stored(), left);
    const SessionRow row = Info(key_).row;
    EXPECT_EQ(row.active_count + row.archived_count + row.content_count, std::ssize(left));
  }
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
    (i % 2 == 0 ? change.row.drop_us : change.row.expire_us) = 2 + i;
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
