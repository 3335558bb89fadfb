#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/engine/engine.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/reads/page.h"
#include "core/reads/session_reads.h"
#include "core/sessions/session_info.h"
#include "core/storage/stores.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/write.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const SessionKey kKey{"tenant", "session"};

class EngineReadTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    Start(Options());
  }

  absl::StatusOr<SessionInfo> GetSession(const SessionKey& key) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<SessionInfo>>>();
    auto future = promise->get_future();
    engine_->reads().GetSession(key, Far(), [promise](absl::StatusOr<SessionInfo> info) {
      promise->set_value(Detached(std::move(info)));
    });
    return Await(std::move(future));
  }

  std::vector<std::string> ListIds(std::string after, std::int64_t max_sessions) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<SessionList>>>();
    auto future = promise->get_future();
    SessionListRequest request{.tenant = "tenant", .max_sessions = max_sessions};
    request.after.session = std::move(after);
    engine_->reads().ListSessions(std::move(request), Far(),
                                  [promise](absl::StatusOr<SessionList> list) {
                                    promise->set_value(Detached(std::move(list)));
                                  });
    const auto list = Await(std::move(future));
    EXPECT_TRUE(list.ok()) << list.status();
    std::vector<std::string> ids;
    for (const auto& [id, info] : list->sessions) {
      EXPECT_TRUE(info.exists());
      ids.push_back(id);
    }
    return ids;
  }

  // Position 1 pinned, 2 and 3 archived, 4 and 5 active; each body has its position as its length.
  void FillSmall() {
    WriteRequest create = NewWrite(commands::CreateSession(), kKey);
    SettingsOf(create) = WordSettings();
    SettingsOf(create)->token_limit = 20;
    SettingsOf(create)->token_flush_size = 1;
    SettingsOf(create)->chat_history_token_ratio = 0.5;
    MustDo(std::move(create));
    MustDo(NewWrite(
        commands::Put(), kKey,
        {{"system", "1"}, {"user", "22"}, {"user", "333"}, {"user", "4444"}, {"user", "55555"}}));
  }

  // A session that keeps its newest four messages, of which two tokens at most are active.
  void CreateSmall() {
    WriteRequest create = NewWrite(commands::CreateSession(), kKey);
    SettingsOf(create) = WordSettings();
    SettingsOf(create)->token_limit = 2;
    SettingsOf(create)->token_flush_size = 1;
    SettingsOf(create)->chat_history_token_ratio = 0.5;
    SettingsOf(create)->retention.keep_messages = 4;
    MustDo(std::move(create));
  }

  PageRequest Request(StatusFilter status = StatusFilter::kAll) {
    PageRequest request;
    request.key = kKey;
    request.status = status;
    return request;
  }
};

TEST_F(EngineReadTest, AnUnknownSessionIsEmptyAndIsNotCreated) {
  const auto context = Get(*engine_, kKey);
  ASSERT_TRUE(context.ok()) << context.status();
  EXPECT_THAT(context->messages, IsEmpty());
  EXPECT_EQ(context->revision, 0);
  EXPECT_EQ(context->limit, 30000);
  EXPECT_THAT(AllBodies(kKey), IsEmpty());
  EXPECT_FALSE(GetSession(kKey)->exists());
  EXPECT_THAT(ListIds("", 10), IsEmpty());
}

TEST_F(EngineReadTest, GetSessionTellsTheRowAndTheConfiguration) {
  FillSmall();
  const auto info = GetSession(kKey);
  ASSERT_TRUE(info.ok() && info->exists());
  EXPECT_EQ(info->row.revision, 2);
  EXPECT_EQ(info->row.active_count, 3);
  EXPECT_EQ(info->row.archived_count, 2);
  EXPECT_EQ(info->config->token_limit, 20);
  MustDo(NewWrite(commands::DeleteSession(), kKey));
  EXPECT_FALSE(GetSession(kKey)->exists());
}

TEST_F(EngineReadTest, AWholeSessionIsReadInPagesOfEverySize) {
  FillSmall();
  for (std::int64_t size = 1; size <= 6; ++size) {
    EXPECT_THAT(AllBodies(kKey, size), ElementsAre("1", "22", "333", "4444", "55555")) << size;
  }
}

TEST_F(EngineReadTest, APageEndsAtItsByteLimitButHoldsAtLeastOneMessage) {
  FillSmall();
  PageRequest request = Request();
  request.max_bytes = 6;
  auto page = ReadPage(request);
  EXPECT_THAT(Bodies(page->messages), ElementsAre("1", "22", "333"));
  EXPECT_EQ(page->next_position, 4);
  request.from_position = 4;
  EXPECT_THAT(Bodies(ReadPage(request)->messages), ElementsAre("4444"));
  request.max_bytes = 1;
  page = ReadPage(request);
  EXPECT_THAT(Bodies(page->messages), ElementsAre("4444"));
  EXPECT_EQ(page->next_position, 5);
  request.from_position = 5;
  page = ReadPage(request);
  EXPECT_THAT(Bodies(page->messages), ElementsAre("55555"));
  EXPECT_EQ(page->next_position, 0);
}

TEST_F(EngineReadTest, FiltersTellTheActiveFromTheArchived) {
  FillSmall();
  EXPECT_THAT(Bodies(ReadPage(Request(StatusFilter::kActive))->messages),
              ElementsAre("1", "4444", "55555"));
  EXPECT_THAT(Bodies(ReadPage(Request(StatusFilter::kArchived))->messages),
              ElementsAre("22", "333"));
  const auto all = ReadPage(Request());
  std::string active;
  for (const MessagePtr& message : all->messages)
    active += IsActive(all->row, message->position) ? 'a' : '-';
  EXPECT_EQ(active, "a--aa");

  PageRequest request = Request(StatusFilter::kActive);
  request.max_messages = 1;
  auto page = ReadPage(request);
  EXPECT_THAT(Bodies(page->messages), ElementsAre("1"));
  request.from_position = page->next_position;
  page = ReadPage(request);
  EXPECT_THAT(Bodies(page->messages), ElementsAre("4444"));
}

TEST_F(EngineReadTest, PagesEndWhereTheRestOfTheSessionIsGone) {
  FillSmall();
  MustDo([] {
    WriteRequest reset = NewWrite(commands::Reset{ResetScope::kActive}, kKey);
    return reset;
  }());
  EXPECT_THAT(AllBodies(kKey), ElementsAre("22", "333"));
  MustDo(NewWrite(commands::Put(), kKey, {{"user", "6"}}));
  EXPECT_THAT(AllBodies(kKey), ElementsAre("22", "333", "6"));
  EXPECT_THAT(AllBodies(kKey, 1), ElementsAre("22", "333", "6"));
}

TEST_F(EngineReadTest, APageAfterSetOrResetIsRefused) {
  FillSmall();
  PageRequest request = Request();
  request.max_messages = 2;
  const auto page = ReadPage(request);
  request.generation = page->row.generation;
  request.from_position = page->next_position;
  MustDo(NewWrite(commands::Put(), kKey, {{"user", "6"}}));
  EXPECT_TRUE(ReadPage(request).ok()) << "a Put replaces nothing";

  MustDo(NewWrite(commands::Reset(), kKey));
  const absl::Status status = ReadPage(request).status();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_EQ(ErrorReason(status), "SESSION_REPLACED");
  MustDo(NewWrite(commands::DeleteSession(), kKey));
  EXPECT_EQ(ErrorReason(ReadPage(request).status()), "SESSION_REPLACED");
}

// A commit takes rows out before the engine hears that it is done.
TEST_F(EngineReadTest, WhatACommitTakesOutIsMissedOnlyWithWhatItBrings) {
  CreateSmall();
  for (const char* text : {"a", "b", "c", "d", "e", "f"}) {
    MustDo(NewWrite(commands::Put(), kKey, {{"user", text}}));
  }
  EXPECT_THAT(AllBodies(kKey), ElementsAre("c", "d", "e", "f"));
  std::future<WriteOutcome> put;
  store_->BeforeNextRows([&] {
    store_->StallReplies();
    put = Submit(NewWrite(commands::Put(), kKey, {{"user", "g"}}));
    store_->AwaitStalled(1);
  });
  store_->BeforeNextRevisions([this] { store_->ReleaseReplies(); });
  const std::vector<std::string> bodies = AllBodies(kKey);
  store_->ReleaseReplies();
  EXPECT_THAT(bodies, ElementsAre("d", "e", "f", "g"));
  EXPECT_TRUE(Await(std::move(put)).status.ok());
}

TEST_F(EngineReadTest, APageIsReadUntilNoCommitTakesRowsOutMeanwhile) {
  CreateSmall();
  for (const char* text : {"a", "b", "c", "d", "e", "f"}) {
    MustDo(NewWrite(commands::Put(), kKey, {{"user", text}}));
  }
  std::string next = "g";
  std::function<void()> put = [&] {
    MustDo(NewWrite(commands::Put(), kKey, {{"user", next}}));
    if (next != "j") store_->BeforeNextRows(put);
    ++next[0];
  };
  store_->BeforeNextRows(put);
  EXPECT_THAT(AllBodies(kKey), ElementsAre("g", "h", "i", "j"));
}

TEST_F(EngineReadTest, APageThatIsReadAgainIsNotHeldTwice) {
  MemoryBudget budget(4'000'000);
  EngineOptions options = Options();
  options.memory = &budget;
  Start(options);
  CreateSmall();
  const auto put = [] {
    return NewWrite(commands::Put(), kKey, {{"user", std::string(345'000, 'x')}});
  };
  for (int i = 0; i < 4; ++i) MustDo(put());
  // Takes out the oldest one after the page was asked for.
  store_->BeforeNextRows([&] { MustDo(put()); });
  PageRequest request;
  request.key = kKey;
  const auto page = ReadPage(request);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->messages.size(), 3U);
  EXPECT_EQ(page->messages.front()->position, 2);
  engine_.reset();
}

TEST_F(EngineReadTest, SessionsAreListedInOrderWithoutDeletedOnes) {
  for (const char* id : {"b", "a", "d", "c"}) MustDo(NewPut({"tenant", id}, {{"user", "x"}}));
  MustDo(NewPut({"stranger", "aa"}, {{"user", "x"}}));
  MustDo(NewWrite(commands::DeleteSession(), {"tenant", "b"}));
  EXPECT_THAT(ListIds("", 10), ElementsAre("a", "c", "d"));
  EXPECT_THAT(ListIds("", 2), ElementsAre("a", "c"));
  EXPECT_THAT(ListIds("c", 2), ElementsAre("d"));
}

TEST_F(EngineReadTest, TenantsDoNotSeeEachOther) {
  MustDo(NewPut({"one", "s"}, {{"user", "mine"}}));
  MustDo(NewPut({"two", "s"}, {{"user", "yours"}}));
  EXPECT_THAT(Bodies(SessionKey{"one", "s"}), ElementsAre("mine"));
  EXPECT_THAT(Bodies(SessionKey{"two", "s"}), ElementsAre("yours"));
}

TEST_F(EngineReadTest, EvictionChangesNoAnswer) {
  EngineOptions options = Options();
  options.cache_bytes = 0;
  Start(options);
  std::map<std::string, std::vector<std::string>> expected;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 40; ++i) {
      const std::string id = std::to_string(i);
      expected[id].push_back(id + "/" + std::to_string(round));
      MustDo(NewPut({"tenant", id}, {{"user", expected[id].back()}}));
    }
  }
  EXPECT_TRUE(engine_->Drain(Far()));
  EXPECT_LE(engine_->cache().SessionCount(), 16U) << "at most the latest of each shard";
  for (const auto& [id, bodies] : expected) {
    EXPECT_EQ(Bodies(SessionKey{"tenant", id}), bodies);
    EXPECT_EQ(AllBodies(SessionKey{"tenant", id}), bodies);
  }
}

TEST_F(EngineReadTest, AReadOfAStalledStoreEndsAtItsDeadline) {
  store_->StallLoads();
  const auto context = Await(StartGet(*engine_, kKey, In(std::chrono::milliseconds(200))));
  EXPECT_EQ(ErrorReason(context.status()), "STORE_UNAVAILABLE");
  store_->ReleaseLoads();
  EXPECT_TRUE(Get(*engine_, kKey).ok());
}

TEST_F(EngineReadTest, ReadsOfOneColdSessionShareOneLoad) {
  store_->StallLoads();
  std::vector<std::future<absl::StatusOr<Context>>> gets;
  gets.push_back(StartGet(*engine_, kKey));
  store_->AwaitStalled(1);
  for (int i = 0; i < 10; ++i) gets.push_back(StartGet(*engine_, kKey));
  store_->ReleaseLoads();
  for (auto& get : gets) EXPECT_TRUE(Await(std::move(get)).ok());
  EXPECT_EQ(store_->loads(), 1);
}

TEST_F(EngineReadTest, AStoreThatCannotBeReadIsUnavailableUnderOneReason) {
  store_->FailReads(absl::UnavailableError("the store is busy"));
  EXPECT_EQ(ErrorReason(Get(*engine_, kKey).status()), "STORE_UNAVAILABLE");
  EXPECT_EQ(ErrorReason(ReadPage(Request()).status()), "STORE_UNAVAILABLE");
  store_->FailReads(absl::DataLossError("a row"));
  EXPECT_TRUE(absl::IsDataLoss(Get(*engine_, kKey).status()));
}

TEST_F(EngineReadTest, AnExclusiveServerThatLostItsStoreStopsAndReadsAnewWhenItIsBack) {
  MustDo(NewPut(kKey, {{"user", "0"}}));
  EXPECT_TRUE(engine_->CheckStore().ok());
  store_->FailPing(absl::FailedPreconditionError("another server holds the store"));
  EXPECT_FALSE(engine_->CheckStore().ok());
  EXPECT_EQ(ErrorReason(Get(*engine_, kKey).status()), "STORE_UNAVAILABLE");
  EXPECT_EQ(ErrorReason(Do(NewPut(kKey, {{"user", "no"}})).status), "STORE_UNAVAILABLE");

  Engine successor(store_.get(), Options());
  EXPECT_TRUE(Await(Submit(successor, NewPut(kKey, {{"user", "1"}}))).status.ok());
  store_->FailPing(absl::OkStatus());
  EXPECT_TRUE(engine_->CheckStore().ok());
  EXPECT_THAT(Bodies(kKey), ElementsAre("0", "1"));
}

TEST_F(EngineReadTest, AnExclusiveServerGoesOnServingWhileItsStoreIsOnlyBusy) {
  store_->FailPing(absl::DeadlineExceededError("the store is busy"));
  EXPECT_FALSE(engine_->CheckStore().ok());
  MustDo(NewPut(kKey, {{"user", "0"}}));
  store_->FailPing(absl::FailedPreconditionError("another server holds the store"));
  EXPECT_FALSE(engine_->CheckStore().ok());
  // Busy says nothing of who wrote meanwhile.
  store_->FailPing(absl::DeadlineExceededError("the store is busy"));
  EXPECT_FALSE(engine_->CheckStore().ok());
  EXPECT_EQ(ErrorReason(Get(*engine_, kKey).status()), "STORE_UNAVAILABLE");
}

TEST_F(EngineReadTest, ALoadThatBeganBeforeTheStoreWasLostDoesNotCount) {
  FaultyStore healthy(real_.get());
  Engine successor(&healthy, Options());
  EXPECT_TRUE(Await(Submit(successor, NewPut(kKey, {{"user", "0"}}))).status.ok());
  store_->StallLoads();
  auto get = StartGet(*engine_, kKey);
  store_->AwaitStalled(1);
  store_->FailPing(absl::FailedPreconditionError("another server holds the store"));
  EXPECT_FALSE(engine_->CheckStore().ok());
  EXPECT_TRUE(Await(Submit(successor, NewPut(kKey, {{"user", "1"}}))).status.ok());
  store_->FailPing(absl::OkStatus());
  EXPECT_TRUE(engine_->CheckStore().ok());
  store_->ReleaseLoads();

  EXPECT_TRUE(Await(std::move(get)).ok());
  EXPECT_THAT(Bodies(kKey), ElementsAre("0", "1"));
}

// Two servers on one store.
class SharedStoreTest : public EngineReadTest {
 protected:
  void SetUp() override {
    EngineReadTest::SetUp();
    Start(Options(Coherence::kShared));
    other_ = std::make_unique<Engine>(store_.get(), Options(Coherence::kShared));
  }
  void TearDown() override { other_.reset(); }

  void MustPut(Engine& engine, std::vector<Line> lines) {
    const WriteOutcome outcome = Await(Submit(engine, NewPut(kKey, std::move(lines))));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  }

  std::unique_ptr<Engine> other_;
};

TEST_F(SharedStoreTest, EachServerSeesWhatTheOtherAcknowledged) {
  EXPECT_THAT(Bodies(*engine_, kKey), IsEmpty());
  EXPECT_THAT(Bodies(*other_, kKey), IsEmpty());
  std::vector<std::string> expected;
  for (int i = 0; i < 20; ++i) {
    expected.push_back(std::to_string(i));
    MustPut(i % 2 == 0 ? *engine_ : *other_, {{"user", expected.back()}});
    EXPECT_EQ(Bodies(*engine_, kKey), expected);
    EXPECT_EQ(Bodies(*other_, kKey), expected);
  }
}

TEST_F(SharedStoreTest, EachServerSeesWhatTheOtherReplacedAndDeleted) {
  MustPut(*engine_, {{"user", "0"}});
  EXPECT_THAT(Bodies(*other_, kKey), ElementsAre("0"));
  EXPECT_TRUE(Await(Submit(*other_, NewWrite(commands::Set(), kKey, {{"user", "1"}}))).status.ok());
  EXPECT_THAT(Bodies(*engine_, kKey), ElementsAre("1"));
  EXPECT_TRUE(Await(Submit(*other_, NewWrite(commands::DeleteSession(), kKey))).status.ok());
  EXPECT_THAT(Bodies(*engine_, kKey), IsEmpty());
  MustPut(*engine_, {{"user", "2"}});
  EXPECT_THAT(Bodies(*other_, kKey), ElementsAre("2"));
}

TEST_F(SharedStoreTest, PutsThroughBothServersAtOnceAreAllStored) {
  constexpr int kPuts = 40;
  std::vector<std::thread> callers;
  for (Engine* engine : {engine_.get(), other_.get(), engine_.get(), other_.get()}) {
    callers.emplace_back([this, engine] {
      for (int i = 0; i < kPuts; ++i) MustPut(*engine, {{"user", "x"}});
    });
  }
  // Reads load what the other server wrote into the cache in between.
  std::thread reader([this] {
    for (int i = 0; i < kPuts; ++i) {
      EXPECT_TRUE(Get(*engine_, kKey).ok());
      EXPECT_TRUE(Get(*other_, kKey).ok());
    }
  });
  for (std::thread& caller : callers) caller.join();
  reader.join();
  EXPECT_THAT(AllBodies(kKey), SizeIs(4 * kPuts));
  EXPECT_EQ(Get(*other_, kKey)->revision, 4 * kPuts);
}

TEST_F(SharedStoreTest, OfTwoPutsWithOneExpectedRevisionOneIsStored) {
  MustPut(*engine_, {{"user", "0"}});
  EXPECT_THAT(Bodies(*other_, kKey), ElementsAre("0"));
  const auto one = Await(Submit(*engine_, WithRevision(NewPut(kKey, {{"user", "1"}}), 1)));
  const auto two = Await(Submit(*other_, WithRevision(NewPut(kKey, {{"user", "2"}}), 1)));
  EXPECT_TRUE(one.status.ok()) << one.status;
  EXPECT_EQ(ErrorReason(two.status), "REVISION_MISMATCH");
  // The other way about: what looks lost to an old cache is not refused.
  const auto three = Await(Submit(*other_, WithRevision(NewPut(kKey, {{"user", "3"}}), 2)));
  EXPECT_TRUE(three.status.ok()) << three.status;
  const auto four = Await(Submit(*engine_, WithRevision(NewPut(kKey, {{"user", "4"}}), 3)));
  EXPECT_TRUE(four.status.ok()) << four.status;
}

TEST_F(SharedStoreTest, ARequestIsReplayedByTheServerThatDidNotGetItFirst) {
  MustPut(*other_, {{"user", "0"}});
  const WriteRequest request = WithRequestId(NewPut(kKey, {{"user", "once"}}), "r");
  const WriteOutcome first = Await(Submit(*engine_, request));
  const WriteOutcome again = Await(Submit(*other_, request));
  EXPECT_TRUE(again.status.ok()) << again.status;
  EXPECT_TRUE(again.replayed);
  EXPECT_EQ(again.reply, first.reply);
  EXPECT_THAT(AllBodies(kKey), ElementsAre("0", "once"));
}

TEST_F(SharedStoreTest, AnUnreachableStoreServesNothingFromTheCache) {
  MustPut(*engine_, {{"user", "0"}});
  store_->FailReads(absl::UnavailableError("the store is busy"));
  EXPECT_EQ(ErrorReason(Get(*engine_, kKey).status()), "STORE_UNAVAILABLE");
  store_->FailReads(absl::OkStatus());
  EXPECT_THAT(Bodies(*engine_, kKey), ElementsAre("0"));
}

}  // namespace
}  // namespace memoryd
