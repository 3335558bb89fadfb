// What a block knows, and undoing a change of it while jobs run.
#include <gmock/gmock.h>

#include <cstdint>
#include <future>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/blocks/fact_state.h"
#include "core/engine/engine.h"
#include "core/llm/model.h"
#include "core/model/job.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/reads/block_view.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"
#include "core/writes/commands/facts.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/write.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/held_models.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const SessionKey kKey{"tenant", "session"};

// Exclusive stores answer from memory, shared ones ask first: the ways differ.
class EngineBlocksTest : public EngineTest, public testing::WithParamInterface<Coherence> {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    Start(WithModels());
    WriteRequest create = NewWrite(commands::CreateSession(), kKey);
    SettingsOf(create) = WordSettings();
    SettingsOf(create)->token_limit = 1000;
    SettingsOf(create)->token_flush_size = 1;
    SettingsOf(create)->chat_history_token_ratio = 0;
    SettingsOf(create)->blocks = {
        Block("facts", "fact-extraction", R"({"model":"chat","facts":["old"]})"),
        Block("vectors", "vector", R"({"embedder":"hash"})"), Block("core", "static", "")};
    MustDo(std::move(create));
  }
  void TearDown() override { engine_.reset(); }

  EngineOptions WithModels() {
    EngineOptions options = Options(GetParam());
    options.models = &models_;
    return options;
  }
  static BlockSettings Block(std::string name, std::string kind, std::string options) {
    BlockSettings block;
    block.name = std::move(name);
    block.kind = std::move(kind);
    block.options_json = std::move(options);
    return block;
  }

  // Ends when the jobs it makes have.
  std::future<WriteOutcome> StartTurn(std::string text) {
    WriteRequest put = NewWrite(commands::Put(), kKey, {{"user", std::move(text)}});
    put.wait_until = Far();
    put.with_open_jobs = [](std::string reply, const std::vector<OpenJob>& open, const Usage&) {
      return open.empty() ? reply : "open";
    };
    return Submit(std::move(put));
  }

  template <typename T>
  auto Call(auto start) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<T>>>();
    auto future = promise->get_future();
    start([promise](absl::StatusOr<T> result) { promise->set_value(Detached(std::move(result))); });
    return Await(std::move(future));
  }
  absl::StatusOr<BlockView> GetBlock(const std::string& block, const SessionKey& key = kKey) {
    return Call<BlockView>([&](auto done) { engine_->reads().GetBlock(key, block, Far(), done); });
  }
  absl::StatusOr<EntryPage> ListEntries(EntryPageRequest request) {
    request.key = kKey;
    return Call<EntryPage>(
        [&](auto done) { engine_->reads().ListBlockEntries(request, Far(), done); });
  }
  FactState Facts() {
    auto view = GetBlock("facts");
    EXPECT_TRUE(view.ok()) << view.status();
    return view.ok() ? std::get<FactState>(view->knowledge.of_kind) : FactState();
  }
  std::vector<std::string> Texts() {
    std::vector<std::string> texts;
    for (const Fact& fact : Facts().facts) texts.push_back(fact.text);
    return texts;
  }
  std::vector<std::string> History() {
    std::vector<std::string> texts;
    for (const PastFact& past : Facts().history) texts.push_back(past.fact.text);
    return texts;
  }

  static WriteRequest Undo(std::int64_t change, std::string block = "facts") {
    return NewWrite(commands::UndoBlockChange{std::move(block), change, {}}, kKey);
  }
  void ExpectRefused(WriteRequest request, absl::StatusCode code, const std::string& reason) {
    const WriteOutcome outcome = Do(std::move(request));
    EXPECT_EQ(outcome.status.code(), code) << outcome.status;
    EXPECT_EQ(ErrorReason(outcome.status), reason);
  }

  // `new` takes the place of `old`, as change 1.
  void Replace() {
    MustDo(NewWrite(commands::Put(), kKey, {{"user", "one"}}));
    auto turn = StartTurn("two");
    EXPECT_THAT(models_.chat->Answer(R"(<fact evidence="1" replaces="1">new</fact>)"),
                HasSubstr(">old<"));
    EXPECT_NE(Await(std::move(turn)).reply, "open");
    EXPECT_THAT(Texts(), ElementsAre("new"));
    EXPECT_THAT(History(), ElementsAre("old"));
  }

  HeldModels models_;
};

INSTANTIATE_TEST_SUITE_P(Coherences, EngineBlocksTest,
                         testing::Values(Coherence::kExclusive, Coherence::kShared));

TEST_P(EngineBlocksTest, ABlockIsSeenBeforeAndAfterItIsFed) {
  auto view = GetBlock("facts");
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->state, nullptr);
  EXPECT_EQ(view->settings.kind, "fact-extraction");
  EXPECT_THAT(Texts(), ElementsAre("old"));
  Replace();
  view = GetBlock("facts");
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->state->done, 1);
  EXPECT_EQ(view->state->next, 2);
  EXPECT_GT(view->revision, 2);
  const Fact fact = std::get<FactState>(view->knowledge.of_kind).facts.at(0);
  EXPECT_EQ(fact.evidence.size(), 1U);
  view = GetBlock("vectors");
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(std::get<KnownEntries>(view->knowledge.of_kind).count, 1);
  view = GetBlock("core");
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_TRUE(std::holds_alternative<std::monostate>(view->knowledge.of_kind));
}

TEST_P(EngineBlocksTest, AJobThatIsListedAsDoneHasFedItsBlock) {
  EngineOptions options = WithModels();
  options.readers = 1;
  Start(options);
  const SessionKey key{"tenant", "facts alone"};
  WriteRequest create = NewWrite(commands::CreateSession(), key);
  SettingsOf(create) = WordSettings();
  SettingsOf(create)->token_limit = 1000;
  SettingsOf(create)->token_flush_size = 1;
  SettingsOf(create)->chat_history_token_ratio = 0;
  SettingsOf(create)->blocks = {Block("facts", "fact-extraction", R"({"model":"chat"})")};
  MustDo(std::move(create));
  MustDo(NewWrite(commands::Put(), key, {{"user", "one"}}));
  MustDo(NewWrite(commands::Put(), key, {{"user", "two"}}));
  // The job is done in the store, and not yet in memory.
  store_->StallReplies();
  models_.chat->Answer(R"(<fact evidence="1">new</fact>)");
  store_->AwaitStalled(1);
  auto seen = std::make_shared<std::promise<absl::StatusOr<BlockView>>>();
  auto view = seen->get_future();
  JobFilter filter;
  filter.max_jobs = 10;
  engine_->job_calls().List(
      key, filter, Far(), [this, key, seen](const absl::StatusOr<std::vector<Job>>& jobs) {
        ASSERT_TRUE(jobs.ok()) << jobs.status();
        ASSERT_EQ(jobs->size(), 1U);
        EXPECT_EQ(jobs->front().state, JobState::kDone);
        engine_->reads().GetBlock(key, "facts", Far(), [seen](absl::StatusOr<BlockView> block) {
          seen->set_value(Detached(std::move(block)));
        });
      });
  // By the one reader, behind the list and what would come of it at once.
  EXPECT_TRUE(GetBlock("core").ok());
  EXPECT_TRUE(GetBlock("core").ok());
  store_->ReleaseReplies();
  const auto block = Await(std::move(view));
  ASSERT_TRUE(block.ok()) << block.status();
  ASSERT_NE(block->state, nullptr);
  EXPECT_EQ(block->state->done, 1);
}

TEST_P(EngineBlocksTest, WhatIsNotThereIsNotFound) {
  EXPECT_EQ(ErrorReason(GetBlock("other").status()), "BLOCK_NOT_FOUND");
  EXPECT_EQ(ErrorReason(GetBlock("facts", {"tenant", "other"}).status()), "SESSION_NOT_FOUND");
  EXPECT_EQ(ErrorReason(GetBlock("facts", {"other", "session"}).status()), "SESSION_NOT_FOUND");
  EntryPageRequest entries;
  entries.block = "facts";
  EXPECT_EQ(ErrorReason(ListEntries(entries).status()), "BLOCK_HAS_NO_ENTRIES");
  entries.block = "other";
  EXPECT_EQ(ErrorReason(ListEntries(entries).status()), "BLOCK_NOT_FOUND");
  constexpr auto kNotFound = absl::StatusCode::kNotFound;
  ExpectRefused(Undo(1), kNotFound, "CHANGE_NOT_FOUND");
  ExpectRefused(Undo(1, "other"), kNotFound, "BLOCK_NOT_FOUND");
  ExpectRefused(Undo(1, "vectors"), absl::StatusCode::kFailedPrecondition,
                "BLOCK_KEEPS_NO_HISTORY");
}

TEST_P(EngineBlocksTest, AnUndoneChangeIsGoneAndCanBeUndoneItself) {
  Replace();
  MustDo(Undo(1));
  EXPECT_THAT(Texts(), ElementsAre("old"));
  FactState facts = Facts();
  ASSERT_EQ(facts.history.size(), 1U);
  EXPECT_EQ(facts.history[0].end, FactEnd::kUndone);
  EXPECT_EQ(facts.history[0].job_id, "");
  ExpectRefused(Undo(1), absl::StatusCode::kNotFound, "CHANGE_NOT_FOUND");
  MustDo(Undo(facts.history[0].change));
  EXPECT_THAT(Texts(), ElementsAre("new"));
  // Another server, or this one after a restart, sees the same.
  Start(WithModels());
  EXPECT_THAT(Texts(), ElementsAre("new"));
}

TEST_P(EngineBlocksTest, ARetryUndoesOnce) {
  Replace();
  const WriteOutcome first = Do(WithRequestId(Undo(1), "r"));
  ASSERT_TRUE(first.status.ok()) << first.status;
  const WriteOutcome again = Do(WithRequestId(Undo(1), "r"));
  ASSERT_TRUE(again.status.ok()) << again.status;
  EXPECT_TRUE(again.replayed);
  EXPECT_EQ(again.reply, first.reply);
  Start(WithModels());
  EXPECT_TRUE(Do(WithRequestId(Undo(1), "r")).replayed);
  ExpectRefused(WithRequestId(Undo(2), "r", 'g'), absl::StatusCode::kAlreadyExists,
                "REQUEST_ID_REUSED");
  ExpectRefused(WithRevision(Undo(2), 1), absl::StatusCode::kAborted, "REVISION_MISMATCH");
  EXPECT_THAT(Texts(), ElementsAre("old"));
}

TEST_P(EngineBlocksTest, AJobUnderWayDoesNotTakeAnUndoBack) {
  Replace();
  auto turn = StartTurn("three");
  const HeldChatModel::Call before = models_.chat->Take();
  EXPECT_THAT(before.prompt, HasSubstr(">new<"));
  MustDo(Undo(1));
  before.done(ChatReply{"<fact>too early</fact>", Usage{1, 10, 2}});
  // It is fed anew.
  const std::string prompt = models_.chat->Answer("<fact>late</fact>");
  EXPECT_THAT(prompt, HasSubstr(">old<"));
  EXPECT_THAT(prompt, Not(HasSubstr(">new<")));
  EXPECT_NE(Await(std::move(turn)).reply, "open");
  EXPECT_THAT(Texts(), ElementsAre("old", "late"));
  EXPECT_THAT(History(), ElementsAre("new"));
  const auto view = GetBlock("facts");
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->state->done, 2);
  const auto jobs = Call<std::vector<Job>>([&](auto done) {
    JobFilter filter;
    filter.max_jobs = 10;
    engine_->job_calls().List(kKey, filter, Far(), done);
  });
  ASSERT_TRUE(jobs.ok());
  ASSERT_EQ(jobs->size(), 4U);
  EXPECT_EQ(jobs->at(1).key.block, "facts");
  EXPECT_EQ(jobs->at(1).state, JobState::kDone);
  EXPECT_EQ(jobs->at(1).attempts, 1);
  EXPECT_EQ(jobs->at(1).usage.calls, 2);
}

TEST_P(EngineBlocksTest, EntriesArePagedUntilTheBlockIsCleared) {
  Replace();
  for (const std::string text : {"three", "four", "five"}) {
    auto turn = StartTurn(text);
    models_.chat->Answer("none");
    EXPECT_NE(Await(std::move(turn)).reply, "open");
  }
  EntryPageRequest request;
  request.block = "vectors";
  request.max_entries = 3;
  auto page = ListEntries(request);
  ASSERT_TRUE(page.ok()) << page.status();
  std::vector<std::string> texts;
  for (const Entry& entry : page->entries) texts.push_back(entry.entry.text);
  EXPECT_THAT(texts, ElementsAre("user: one", "user: two", "user: three"));
  EXPECT_EQ(page->entries[2].position, 3);
  EXPECT_EQ(page->entries[2].entry.sources.at(0).position, 3);
  EXPECT_EQ(page->next_position, 4);
  request.generation = page->generation;
  request.from_position = page->next_position;
  page = ListEntries(request);
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->entries.size(), 1U);
  EXPECT_EQ(page->entries[0].entry.text, "user: four");
  EXPECT_EQ(page->next_position, 0);
  WriteRequest reset = NewWrite(commands::Reset{ResetScope::kEverything}, kKey);
  MustDo(std::move(reset));
  EXPECT_EQ(ErrorReason(ListEntries(request).status()), "SESSION_REPLACED");
  request.generation.reset();
  request.from_position = 1;
  page = ListEntries(request);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT(page->entries, IsEmpty());
  EXPECT_EQ(page->next_position, 0);
}

TEST_P(EngineBlocksTest, PagesOfEntriesEndAtTheirBytes) {
  Replace();
  auto turn = StartTurn("three");
  models_.chat->Answer("none");
  Await(std::move(turn));
  EntryPageRequest request;
  request.block = "vectors";
  request.max_bytes = 1;
  const auto page = ListEntries(request);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->entries.size(), 1U);
  EXPECT_EQ(page->next_position, 2);
}

}  // namespace
}  // namespace memoryd
