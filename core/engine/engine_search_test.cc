// Query and UpdateContext through the engine, beside writes.
#include <gmock/gmock.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/calls/call_end.h"
#include "core/engine/engine.h"
#include "core/lifecycle/attached_sessions.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/recall/recall.h"
#include "core/recall/session_search.h"
#include "core/storage/store.h"
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

class EngineSearchTest : public EngineTest {
 protected:
  static absl::StatusOr<Found> Query(Engine& engine, std::string query) {
    QueryRequest request;
    request.key = kKey;
    request.query = std::move(query);
    request.top_k = 1000;
    auto promise = std::make_shared<std::promise<absl::StatusOr<Found>>>();
    auto future = promise->get_future();
    engine.Query(std::move(request), Far(), [promise](absl::StatusOr<Found> found) {
      promise->set_value(Detached(std::move(found)));
    });
    return Await(std::move(future));
  }
  static absl::StatusOr<UpdatedContext> Update(Engine& engine, std::string question) {
    const auto owned = std::make_shared<const std::string>(std::move(question));
    UpdateContextRequest request;
    request.key = kKey;
    request.messages.push_back({"user", {*owned}, /*only_text=*/true, {}});
    request.keep_alive = owned;
    auto promise = std::make_shared<std::promise<absl::StatusOr<UpdatedContext>>>();
    auto future = promise->get_future();
    engine.UpdateContext(std::move(request), Far(),
                         [promise](absl::StatusOr<UpdatedContext> updated) {
                           promise->set_value(Detached(std::move(updated)));
                         });
    return Await(std::move(future));
  }
  static std::vector<std::string> FoundBodies(const absl::StatusOr<Found>& found) {
    EXPECT_TRUE(found.ok()) << found.status();
    std::vector<std::string> bodies;
    if (!found.ok()) return bodies;
    for (const FoundItem& item : found->items) {
      bodies.emplace_back((item.message != nullptr ? item.message : item.content)->body);
    }
    return bodies;
  }
  std::vector<std::string> FoundBodies(std::string query) {
    return FoundBodies(Query(*engine_, std::move(query)));
  }
  // A session with a block for each of these others, which have a message each.
  void CreateWithSessions(const std::vector<std::string>& others) {
    WriteRequest create = NewWrite(commands::CreateSession(), kKey);
    SettingsOf(create) = WordSettings();
    SettingsOf(create)->blocks.emplace();
    for (const std::string& id : others) {
      MustDo(NewPut({"tenant", id}, {{"user", "red"}}));
      BlockSettings& block = SettingsOf(create)->blocks->emplace_back();
      block.name = id;
      block.kind = "session";
      block.options_json = R"({"session_id":")" + id + R"("})";
    }
    MustDo(std::move(create));
  }
  void MustReset(ResetScope scope) {
    WriteRequest reset = NewWrite(commands::Reset{scope}, kKey);
    MustDo(std::move(reset));
  }
  // What the sweeper does.
  void Sweep() { ASSERT_TRUE(real_->Purge({0, std::int64_t{1} << 60, 1'000'000}).ok()); }
};

TEST_F(EngineSearchTest, AnUnknownSessionIsEmptyAndIsNotCreated) {
  Start(Options());
  EXPECT_THAT(FoundBodies("word"), IsEmpty());
  const auto updated = Update(*engine_, "word");
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_THAT(updated->kept, SizeIs(1));
  EXPECT_FALSE((*real_->LoadSession(kKey, kAllActive)).has_value());
}

TEST_F(EngineSearchTest, AQueryRightAfterAPutFindsItWhateverTheCoherence) {
  for (const Coherence coherence : {Coherence::kExclusive, Coherence::kShared}) {
    Start(Options(coherence));
    MustDo(NewPut(kKey, {}));
    for (int i = 0; i < 50; ++i) {
      const std::string word = fmt::format("word{}", i);
      MustDo(WithContents(NewPut(kKey, {{"user", word}}), {{word + " noted"}}));
      EXPECT_THAT(FoundBodies(word), ElementsAre(word, word + " noted"));
    }
    MustReset(ResetScope::kEverything);
    EXPECT_THAT(FoundBodies("word1"), IsEmpty());
  }
}

TEST_F(EngineSearchTest, WhatAnotherServerWroteIsFoundToo) {
  Start(Options(Coherence::kShared));
  Engine other(real_.get(), Options(Coherence::kShared));
  MustDo(NewPut(kKey, {{"user", "first"}}));
  EXPECT_THAT(FoundBodies(Query(other, "first")), ElementsAre("first"));
  for (int i = 0; i < 20; ++i) {
    const std::string word = fmt::format("word{}", i);
    const WriteOutcome outcome = Await(Submit(other, NewPut(kKey, {{"user", word}})));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_THAT(FoundBodies(word), ElementsAre(word));
    EXPECT_THAT(FoundBodies(Query(other, word)), ElementsAre(word));
  }
}

TEST_F(EngineSearchTest, AResetBetweenTheSearchAndTheReadIsNoticed) {
  Start(Options());
  MustDo(WithContents(NewPut(kKey, {{"user", "red"}}), {{"red note"}}));
  EXPECT_THAT(FoundBodies("red"), SizeIs(2));
  store_->BeforeNextRows([this] {
    MustReset(ResetScope::kMessages);
    Sweep();
  });
  const auto found = Query(*engine_, "red");
  EXPECT_THAT(FoundBodies(found), ElementsAre("red note")) << "as the session is after the Reset";
  EXPECT_EQ(found->row.revision, 2);
}

TEST_F(EngineSearchTest, AResetAtEveryTryEndsWithWhatIsLeft) {
  Start(Options());
  MustDo(WithContents(NewPut(kKey, {{"user", "red"}}), {{"red note"}}));
  // As often as the engine asks anew, the session is cut before the rows are read.
  int resets = 0;
  std::function<void()> cut = [&] {
    ++resets;
    MustDo(NewWrite(commands::Set(), kKey, {{"user", "red"}}));
    Sweep();
    store_->BeforeNextRows(cut);
  };
  store_->BeforeNextRows(cut);
  const auto found = Query(*engine_, "red");
  store_->BeforeNextRows(nullptr);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_GE(resets, 3);
  EXPECT_LE(found->items.size(), 1U);
  EXPECT_THAT(FoundBodies("red"), ElementsAre("red"));
}

TEST_F(EngineSearchTest, AResetWhileContextIsUpdatedIsNoticed) {
  Start(Options());
  MustDo(WithContents(NewPut(kKey, {}), {{"one"}, {"two"}}));
  store_->BeforeNextRows([this] {
    MustDo(WithContents(NewWrite(commands::Set(), kKey), {{"three"}}));
    Sweep();
  });
  const auto updated = Update(*engine_, "question");
  ASSERT_TRUE(updated.ok()) << updated.status();
  ASSERT_THAT(updated->found.items, SizeIs(1));
  EXPECT_EQ(updated->found.items.front().content->body, "three");
}

TEST_F(EngineSearchTest, AStoreErrorIsToldAndTheNextQueryWorks) {
  Start(Options());
  MustDo(NewPut(kKey, {{"user", "red"}}));
  store_->FailReads(absl::UnavailableError("the store is away"));
  EXPECT_TRUE(absl::IsUnavailable(Query(*engine_, "red").status()));
  store_->FailReads(absl::OkStatus());
  EXPECT_THAT(FoundBodies("red"), ElementsAre("red"));
}

// The index has just been dropped, and is in the middle of being read back.
TEST_F(EngineSearchTest, PutsGoOnWhileAnIndexIsMadeAnew) {
  EngineOptions options = Options();
  options.index_bytes = 1;
  Start(options);
  MustDo(NewPut(kKey, {{"user", "red"}}));
  EXPECT_THAT(FoundBodies("red"), ElementsAre("red"));
  int puts = 0;
  store_->BeforeNextRows([&] {
    for (int i = 0; i < 20; ++i) {
      MustDo(NewPut(kKey, {{"user", "red and blue"}}));
      MustDo(NewPut({"tenant", "another"}, {{"user", "red"}}));
      ++puts;
    }
  });
  const auto found = Query(*engine_, "red");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(puts, 20);
  EXPECT_GE(found->items.size(), 1U);
  EXPECT_THAT(FoundBodies("blue"), SizeIs(20));
  EXPECT_GE(engine_->search().evictions(), 3U);
}

class ConcurrentSearchTest : public EngineSearchTest {
 protected:
  void Write(bool resets) {
    for (int i = 0; i < 60; ++i) {
      MustDo(WithContents(NewPut(kKey, {{"user", "red"}}), {{"red note"}}));
      if (resets && i % 7 == 6) {
        MustReset(i % 2 == 0 ? ResetScope::kEverything : ResetScope::kActive);
        Sweep();
      }
    }
  }

  void Search() {
    for (const std::string& body : FoundBodies("red")) {
      EXPECT_THAT(body, ::testing::AnyOf("red", "red note"));
    }
    const auto updated = Update(*engine_, "red");
    EXPECT_TRUE(updated.ok()) << updated.status();
  }
};

// Two writers, two searchers and one who resets: whatever is found was there at one time.
TEST_F(ConcurrentSearchTest, QueriesBesidePutsAndResetsAlwaysAnswer) {
  for (const Coherence coherence : {Coherence::kExclusive, Coherence::kShared}) {
    Start(Options(coherence));
    std::atomic<int> writers = 2;
    std::vector<std::thread> threads;
    for (const bool resets : {true, false}) {
      threads.emplace_back([this, resets, &writers] {
        Write(resets);
        --writers;
      });
      threads.emplace_back([this, &writers] {
        while (writers > 0) Search();
      });
    }
    for (std::thread& thread : threads) thread.join();
    const auto row = (*real_->LoadSession(kKey, kAllActive))->row;
    EXPECT_EQ(static_cast<std::int64_t>(FoundBodies("red").size()),
              row.active_count + row.archived_count + row.content_count);
  }
}

TEST_F(EngineSearchTest, AQueryOfManySessionsThatNobodyWaitsForIsCountedOnce) {
  struct Watch : CallWatch {
    bool IsCancelled() const override { return cancelled.load(); }
    std::atomic<bool> cancelled{false};
  };
  Start(Options());
  CreateWithSessions({"a", "b", "c", "d", "e", "f"});
  const auto watch = std::make_shared<Watch>();
  // When two searchers look at most at two of them.
  store_->BeforeNextRows([&] { watch->cancelled.store(true); });
  QueryRequest request;
  request.key = kKey;
  request.query = "red";
  request.top_k = 10;
  std::promise<absl::Status> ended;
  engine_->Query(std::move(request), {Far(), watch},
                 [&](const absl::StatusOr<Found>& found) { ended.set_value(found.status()); });
  EXPECT_EQ(ended.get_future().get().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(engine_->stats().cancelled_reads, 1U);
}

TEST_F(EngineSearchTest, AnExceptionWhileMessagesAreHandedOnEndsTheAttempt) {
  EngineOptions options = Options();
  options.hand_on = [](const HandedOn& /*from*/, WriteRequest& /*write*/) -> absl::Status {
    throw std::bad_alloc();
  };
  Start(options);
  CreateWithSessions({"other"});
  MustDo(NewWrite(commands::Put(), kKey, {{"user", "red"}}));
  EXPECT_TRUE(engine_->Drain(Far())) << "nobody waits for what will never come";
  while (engine_->stats().exceptions == 0) std::this_thread::yield();
}

}  // namespace
}  // namespace memoryd
