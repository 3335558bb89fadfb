// What models take for sessions: counted, stored with them, and not taken beyond a budget.
#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/blocks/usage_state.h"
#include "core/engine/engine.h"
#include "core/lifecycle/session_fork.h"
#include "core/llm/model.h"
#include "core/model/job.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/sessions/session_info.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/write.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/fake_models.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

const SessionKey kKey{"tenant", "session"};

// Says the same each time, for one call, 10 prompt and 2 completion tokens.
class OneFact final : public ChatModel {
 public:
  void Complete(const ModelCaller& /*caller*/, ChatRequest /*request*/, ModelDeadline /*deadline*/,
                Done done) override {
    done(ChatReply{"<fact>new</fact>", Usage{1, 10, 2}});
  }
};

class BudgetedModels final : public ModelDirectory {
 public:
  absl::StatusOr<std::shared_ptr<ChatModel>> FindChatModel(std::string_view /*tenant*/,
                                                           std::string_view /*worker*/,
                                                           std::string_view /*model*/) override {
    return std::make_shared<OneFact>();
  }
  absl::StatusOr<std::shared_ptr<Embedder>> FindEmbedder(std::string_view /*tenant*/,
                                                         std::string_view /*worker*/,
                                                         std::string_view /*name*/) override {
    return std::make_shared<HashEmbedder>();
  }
  absl::Status MayAsk(const ModelCaller& /*caller*/) override {
    if (allowed) return absl::OkStatus();
    return Error(absl::StatusCode::kResourceExhausted, "MODEL_BUDGET", "nothing is left for today");
  }

  std::atomic<bool> allowed{true};
};

class EngineUsageTest : public EngineTest, public testing::WithParamInterface<Coherence> {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    Restart();
    Create();
  }
  void TearDown() override { engine_.reset(); }

  void Create() {
    WriteRequest create = NewWrite(commands::CreateSession(), kKey);
    SettingsOf(create) = WordSettings();
    SettingsOf(create)->token_limit = 1000;
    SettingsOf(create)->token_flush_size = 1;
    SettingsOf(create)->chat_history_token_ratio = 0;
    BlockSettings facts;
    facts.name = "facts";
    facts.kind = "fact-extraction";
    facts.options_json = R"({"model":"chat"})";
    BlockSettings vectors;
    vectors.name = "vectors";
    vectors.kind = "vector";
    vectors.options_json = R"({"embedder":"hash"})";
    SettingsOf(create)->blocks = {facts, vectors};
    MustDo(std::move(create));
  }
  void Restart() {
    EngineOptions options = Options(GetParam());
    options.models = &models_;
    options.jobs.first_retry = std::chrono::milliseconds(1);
    options.jobs.poll_interval = std::chrono::milliseconds(10);
    options.jobs.first_budget_wait = std::chrono::milliseconds(1);
    Start(std::move(options));
  }

  static std::string Text(const Usage& usage) { return EncodeUsage(usage); }
  // The reply is what the Put's jobs took, and "open" when one of them has not ended.
  std::future<WriteOutcome> StartTurn(std::string text) {
    WriteRequest put = NewWrite(commands::Put(), kKey, {{"user", std::move(text)}});
    put.wait_until = Far();
    put.with_open_jobs = [](std::string /*reply*/, const std::vector<OpenJob>& open,
                            const Usage& usage) { return open.empty() ? Text(usage) : "open"; };
    return Submit(std::move(put));
  }
  std::string Turn(std::string text) { return Await(StartTurn(std::move(text))).reply; }

  SessionInfo Session(const SessionKey& key = kKey) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<SessionInfo>>>();
    auto future = promise->get_future();
    engine_->reads().GetSession(key, Far(), [promise](absl::StatusOr<SessionInfo> info) {
      promise->set_value(Detached(std::move(info)));
    });
    auto info = Await(std::move(future));
    EXPECT_TRUE(info.ok()) << info.status();
    return info.ok() ? *std::move(info) : SessionInfo();
  }
  Usage Taken() { return Session().usage; }
  std::vector<Job> Jobs() {
    auto promise = std::make_shared<std::promise<absl::StatusOr<std::vector<Job>>>>();
    auto future = promise->get_future();
    JobFilter filter;
    filter.max_jobs = 100;
    engine_->job_calls().List(kKey, filter, Far(),
                              [promise](absl::StatusOr<std::vector<Job>> jobs) {
                                promise->set_value(Detached(std::move(jobs)));
                              });
    auto jobs = Await(std::move(future));
    EXPECT_TRUE(jobs.ok()) << jobs.status();
    return jobs.ok() ? *std::move(jobs) : std::vector<Job>();
  }

  BudgetedModels models_;
};

INSTANTIATE_TEST_SUITE_P(Coherences, EngineUsageTest,
                         testing::Values(Coherence::kExclusive, Coherence::kShared));

TEST_P(EngineUsageTest, APutThatWaitsSaysWhatItsJobsTook) {
  Turn("one");
  EXPECT_EQ(Taken(), Usage());
  // One of each block.
  EXPECT_EQ(Turn("two"), Text({2, 15, 2}));
  EXPECT_EQ(Turn("three"), Text({2, 15, 2}));
  EXPECT_EQ(Taken(), (Usage{4, 30, 4}));
  Usage of_jobs;
  for (const Job& job : Jobs()) of_jobs += job.usage;
  EXPECT_EQ(of_jobs, Taken());
}

TEST_P(EngineUsageTest, WhatAJobTookIsStoredWithItsEnd) {
  Turn("one");
  Turn("two");
  const auto loaded = real_->LoadSession(kKey, kAllActive);
  ASSERT_TRUE(loaded.ok() && loaded->has_value());
  Usage stored;
  for (const BlockState& block : (*loaded)->blocks) {
    if (block.name == kUsageBlock) stored = DecodeUsage(block.state);
  }
  EXPECT_EQ(stored, (Usage{2, 15, 2}));
}

TEST_P(EngineUsageTest, AReadIsCountedAtOnceAndChangesNothing) {
  Turn("one");
  Turn("two");
  const SessionInfo before = Session();
  const auto context = Get(*engine_, kKey);
  ASSERT_TRUE(context.ok()) << context.status();
  EXPECT_EQ(context->usage, (Usage{1, 5, 0}));
  const SessionInfo after = Session();
  EXPECT_EQ(after.usage, (Usage{3, 20, 2}));
  EXPECT_EQ(after.row, before.row);
  // The next commit takes it along.
  EXPECT_EQ(Turn("three"), Text({2, 15, 2}));
  EXPECT_EQ(Taken(), (Usage{5, 35, 4}));
}

TEST_P(EngineUsageTest, ItOutlivesTheServerReadsIncluded) {
  Turn("one");
  Turn("two");
  ASSERT_TRUE(Get(*engine_, kKey).ok());
  Restart();
  EXPECT_EQ(Taken(), (Usage{3, 20, 2}));
  // Once.
  Restart();
  EXPECT_EQ(Taken(), (Usage{3, 20, 2}));
}

TEST_P(EngineUsageTest, ItStaysOverAResetAndGoesWithTheSession) {
  Turn("one");
  Turn("two");
  WriteRequest reset = NewWrite(commands::Reset{ResetScope::kEverything}, kKey);
  MustDo(std::move(reset));
  EXPECT_EQ(Taken(), (Usage{2, 15, 2}));
  MustDo(NewWrite(commands::Set(), kKey, {{"user", "three"}}));
  EXPECT_EQ(Taken(), (Usage{2, 15, 2}));
  EXPECT_EQ(Turn("four"), Text({2, 15, 2}));
  EXPECT_EQ(Taken(), (Usage{4, 30, 4}));
  MustDo(NewWrite(commands::DeleteSession(), kKey));
  Create();
  EXPECT_EQ(Taken(), Usage());
}

TEST_P(EngineUsageTest, ACopyHasCostNothing) {
  Turn("one");
  Turn("two");
  ForkRequest fork;
  fork.source = kKey;
  fork.target = {"tenant", "copy"};
  fork.deadline = Far();
  fork.encode_reply = &ReadableReply;
  auto promise = std::make_shared<std::promise<absl::Status>>();
  auto future = promise->get_future();
  engine_->lifecycle().ForkSession(std::move(fork),
                                   [promise](const absl::StatusOr<ForkReply>& reply) {
                                     promise->set_value(Detached(reply.status()));
                                   });
  const absl::Status forked = Await(std::move(future));
  ASSERT_TRUE(forked.ok()) << forked;
  EXPECT_EQ(Session({"tenant", "copy"}).usage, Usage());
  EXPECT_EQ(Taken(), (Usage{2, 15, 2}));
}

TEST_P(EngineUsageTest, WhatACommitCouldNotStoreIsStoredByTheNext) {
  Turn("one");
  Turn("two");
  ASSERT_TRUE(Get(*engine_, kKey).ok());
  store_->AnswerNext(CommitOutcome::kFailed, absl::UnavailableError("the store is away"));
  EXPECT_FALSE(Do(NewWrite(commands::Put(), kKey, {{"user", "lost"}})).status.ok());
  EXPECT_EQ(Taken(), (Usage{3, 20, 2}));
  Restart();
  EXPECT_EQ(Taken(), (Usage{3, 20, 2}));
}

TEST_P(EngineUsageTest, WithoutABudgetJobsWaitAndAreNoAttempts) {
  Turn("one");
  models_.allowed = false;
  WriteRequest put = NewWrite(commands::Put(), kKey, {{"user", "two"}});
  put.with_open_jobs = [](std::string reply, const std::vector<OpenJob>& open, const Usage&) {
    return reply + "+" + std::to_string(open.size());
  };
  // A Put is not refused.
  const WriteOutcome outcome = Do(std::move(put));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_THAT(outcome.reply, EndsWith("+2"));
  std::vector<Job> jobs;
  do {
    jobs = Jobs();
    ASSERT_THAT(jobs, SizeIs(2));
  } while (jobs[0].last_error.empty() || jobs[1].last_error.empty());
  for (const Job& job : jobs) {
    EXPECT_EQ(job.state, JobState::kOpen);
    EXPECT_LE(job.attempts, 1);
    EXPECT_THAT(job.last_error, StartsWith("MODEL_BUDGET: "));
    EXPECT_EQ(job.usage, Usage());
  }
  EXPECT_EQ(engine_->stats().job_failures, 0U);
  // They go on by themselves, in another server too.
  Restart();
  models_.allowed = true;
  auto turn = StartTurn("three");
  EXPECT_NE(Await(std::move(turn)).reply, "open");
  for (const Job& job : Jobs()) {
    EXPECT_EQ(job.state, JobState::kDone);
    EXPECT_EQ(job.attempts, 1);
  }
}

TEST_P(EngineUsageTest, WithoutABudgetAGetDoesWithoutModels) {
  Turn("one");
  Turn("two");
  models_.allowed = false;
  const auto context = Get(*engine_, kKey);
  ASSERT_TRUE(context.ok()) << context.status();
  EXPECT_EQ(context->usage, Usage());
  EXPECT_THAT(context->blocks_used, ElementsAre("facts"));
  ASSERT_THAT(context->missing_blocks, SizeIs(1));
  EXPECT_EQ(context->missing_blocks[0].block, "vectors");
  EXPECT_EQ(context->missing_blocks[0].reason, "MODEL_BUDGET");
  models_.allowed = true;
  EXPECT_THAT(Get(*engine_, kKey)->missing_blocks, IsEmpty());
}

}  // namespace
}  // namespace memoryd
