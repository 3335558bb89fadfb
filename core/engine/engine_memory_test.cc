// What the engine holds for callers, and that nothing stays counted.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/engine/engine.h"
#include "core/llm/model.h"
#include "core/model/job.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/reads/context.h"
#include "core/storage/store.h"
#include "core/writes/write.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/held_models.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

SessionKey Key(const std::string& session, const std::string& tenant = "tenant") {
  return {tenant, session};
}

class EngineMemoryTest : public EngineTest {
 protected:
  void TearDown() override { engine_.reset(); }

  EngineOptions Limited(MemoryBudget& budget) {
    EngineOptions options = Options();
    options.memory = &budget;
    options.models = &models_;
    options.jobs.poll_interval = std::chrono::milliseconds(5);
    options.jobs.first_retry = options.jobs.max_retry = std::chrono::milliseconds(1);
    options.jobs.first_memory_wait = std::chrono::milliseconds(5);
    options.jobs.max_memory_wait = std::chrono::milliseconds(5);
    options.jobs.max_attempts = 3;
    return options;
  }
  static SessionSettings WithSummary() {
    SessionSettings settings = WordSettings();
    settings.token_limit = 1000;
    settings.token_flush_size = 1;
    settings.chat_history_token_ratio = 0;
    BlockSettings block;
    block.name = "summary";
    block.kind = "summary";
    block.options_json = R"({"model":"chat"})";
    settings.blocks = {block};
    return settings;
  }
  // A session whose first message leaves short-term memory with the second.
  void Fill(const SessionKey& key, std::size_t bytes) {
    WriteRequest create = NewWrite(commands::CreateSession(), key);
    SettingsOf(create) = WithSummary();
    MustDo(std::move(create));
    MustDo(NewWrite(commands::Put(), key, {{"user", std::string(bytes, 'x')}}));
    MustDo(NewWrite(commands::Put(), key, {{"user", "next"}}));
  }
  // Answers every second call of a model.
  void AnswerOrFail(const std::atomic<bool>& stopped) {
    std::minstd_rand random(1);
    while (!stopped) {
      const auto call = models_.chat->TryTake();
      if (!call.has_value()) {
        std::this_thread::yield();
      } else if (random() % 2 == 0) {
        call->done(ChatReply{"a summary", Usage{1, 10, 2}});
      } else {
        call->done(absl::UnavailableError("it is away"));
      }
    }
  }
  static WriteRequest AnyWrite(const SessionKey& key, std::minstd_rand& random) {
    WriteRequest write =
        NewWrite(commands::Put(), key, {{"user", std::string(random() % 20'000, 'x')}});
    switch (random() % 8) {
      case 0:
        return NewWrite(commands::DeleteSession(), key);
      case 1:
        return NewWrite(commands::Reset(), key);
      case 2:
        write.expected_revision = 1;
        break;
      case 3:
        write.deadline = In(std::chrono::milliseconds(random() % 3));
        break;
      default:
        SettingsOf(write) = WithSummary();
    }
    return write;
  }
  // The first two callers see to it that the store fails now and then.
  void CallInAllWays(unsigned caller) {
    std::minstd_rand random(caller + 1);
    std::vector<std::future<WriteOutcome>> writes;
    std::vector<std::future<absl::StatusOr<Context>>> gets;
    for (int i = 0; i < 300; ++i) {
      const SessionKey key =
          Key("s" + std::to_string(random() % 6), random() % 3 == 0 ? "other" : "tenant");
      if (caller == 0 && i % 16 == 0) {
        store_->AnswerNext(CommitOutcome::kFailed, absl::UnavailableError("away"));
      }
      if (caller == 1 && i % 8 == 0) {
        store_->FailReads(i % 16 == 0 ? absl::UnavailableError("away") : absl::OkStatus());
      }
      writes.push_back(Submit(AnyWrite(key, random)));
      gets.push_back(
          StartGet(*engine_, key, random() % 4 == 0 ? In(std::chrono::milliseconds(1)) : Far()));
      if (random() % 32 == 0) engine_->ExpirePending();
    }
    for (auto& write : writes) Await(std::move(write));
    for (auto& get : gets) Await(std::move(get)).status().IgnoreError();
  }
  Job FirstJob(const SessionKey& key) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<std::vector<Job>>>>();
    auto future = promise->get_future();
    JobFilter filter;
    filter.max_jobs = 1;
    engine_->job_calls().List(key, filter, Far(), [promise](absl::StatusOr<std::vector<Job>> jobs) {
      promise->set_value(Detached(std::move(jobs)));
    });
    const auto jobs = Await(std::move(future));
    EXPECT_TRUE(jobs.ok() && jobs->size() == 1) << jobs.status();
    return jobs.ok() && !jobs->empty() ? jobs->front() : Job();
  }
  template <typename Condition>
  static void Until(const Condition& condition) {
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      ASSERT_LT(std::chrono::steady_clock::now(), patience);
      std::this_thread::yield();
    }
  }
  static std::int64_t HeldForJobs(MemoryBudget& budget) {
    return budget.HeldByUse()[static_cast<std::size_t>(MemoryUse::kJobs)];
  }

  HeldModels models_;
};

TEST_F(EngineMemoryTest, AJobWaitsUntilThereIsMemoryForIt) {
  MemoryBudget budget(1'000'000);
  Start(Limited(budget));
  auto other = budget.Count("tenant", MemoryUse::kJobs, 400'000);
  Fill(Key("s"), 100'000);
  Until([this] { return engine_->stats().jobs_short_of_memory > 3; });
  EXPECT_THAT(FirstJob(Key("s")).last_error, StartsWith("MEMORY_SHORT"));
  EXPECT_EQ(FirstJob(Key("s")).state, JobState::kOpen);
  other.Release();
  models_.chat->Answer("a summary");
  Until([this] { return FirstJob(Key("s")).state == JobState::kDone; });
  EXPECT_EQ(FirstJob(Key("s")).attempts, 1) << "to wait is no attempt";
  Until([&budget] { return HeldForJobs(budget) == 0; });
  engine_.reset();
}

TEST_F(EngineMemoryTest, JobsFoundAtTheStartWaitToo) {
  MemoryBudget budget(1'000'000);
  Start(Limited(budget));
  {
    const auto other = budget.Count("tenant", MemoryUse::kJobs, 400'000);
    for (const char* const session : {"a", "b", "c"}) Fill(Key(session), 100'000);
    engine_.reset();
    Start(Limited(budget));
    Until([this] { return engine_->stats().jobs_short_of_memory > 3; });
    EXPECT_EQ(HeldForJobs(budget), 400'000);
  }
  for (int i = 0; i < 3; ++i) models_.chat->Answer("a summary");
  for (const char* const session : {"a", "b", "c"}) {
    Until([&] { return FirstJob(Key(session)).state == JobState::kDone; });
  }
  engine_.reset();
  EXPECT_EQ(budget.held(), 0);
}

TEST_F(EngineMemoryTest, AJobThatIsTooLargeForItsTenantIsGivenUp) {
  MemoryBudget budget(500'000);
  Start(Limited(budget));
  Fill(Key("s"), 100'000);
  Until([this] { return FirstJob(Key("s")).state == JobState::kFailed; });
  EXPECT_THAT(FirstJob(Key("s")).last_error, HasSubstr("memory_limit_mib"));
  EXPECT_EQ(FirstJob(Key("s")).attempts, 3);
  EXPECT_EQ(HeldForJobs(budget), 0);
  engine_.reset();
}

TEST_F(EngineMemoryTest, WhileAModelThinksNeitherMessagesNorSessionAreKept) {
  MemoryBudget budget(10'000'000);
  Start(Limited(budget));
  Fill(Key("s"), 100'000);
  std::optional<HeldChatModel::Call> call = models_.chat->Take();
  // A piece of the transcript.
  Until([&budget] { return HeldForJobs(budget) < 30'000; });
  EXPECT_GT(HeldForJobs(budget), 0);
  Until([this, &budget] {
    budget.Shrink();
    return engine_->cache().SessionCount() == 0;
  });
  call->done(ChatReply{"a summary", Usage{1, 10, 2}});
  call.reset();
  Until([this] { return FirstJob(Key("s")).state == JobState::kDone; });
  engine_.reset();
  EXPECT_EQ(budget.held(), 0);
}

TEST_F(EngineMemoryTest, AnotherTenantIsServedWhileOneFillsTheBudget) {
  MemoryBudget budget(1'000'000);
  Start(Limited(budget));
  for (int i = 0; i < 40; ++i) {
    MustDo(NewPut(Key("s" + std::to_string(i), "large"), {{"user", std::string(50'000, 'x')}}));
    EXPECT_LE(budget.held(), 1'000'000);
  }
  EXPECT_GT(budget.evicted_bytes(MemoryUse::kSessions), 1'000'000U);
  MustDo(NewPut(Key("s", "small"), {{"user", "hello"}}));
  const std::uint64_t before = budget.evicted_bytes(MemoryUse::kSessions);
  MustDo(NewPut(Key("t", "large"), {{"user", std::string(500'000, 'x')}}));
  EXPECT_GT(budget.evicted_bytes(MemoryUse::kSessions), before);
  for (const MemoryBudget::TenantMemory& tenant : budget.Tenants()) {
    if (tenant.tenant == "small") {
      EXPECT_GT(tenant.held[static_cast<std::size_t>(MemoryUse::kSessions)], 0)
          << "the largest holder's sessions go first";
    }
  }
  EXPECT_EQ(Bodies(Key("s0", "large")).size(), 1U) << "what was evicted is read again";
  engine_.reset();
}

TEST_F(EngineMemoryTest, ALargeSessionIsReadOnceTheBudgetHasRoomForIt) {
  constexpr std::int64_t kMib = std::int64_t{1} << 20;
  MemoryBudget budget(10 * kMib);
  EngineOptions options = Limited(budget);
  options.max_active_bytes = 4 * kMib;
  Start(options);
  for (int i = 0; i < 3; ++i) {
    MustDo(NewPut(Key("s"), {{"user", std::string(kMib, 'x')}}));
  }
  MustDo(NewPut(Key("small"), {{"user", "hello"}}));
  engine_.reset();
  // What cannot be evicted, all but a mebibyte.
  auto other = budget.Count("tenant", MemoryUse::kReplies, 9 * kMib);
  Start(options);
  const int loads = store_->loads();
  const absl::Status refused = Get(*engine_, Key("s")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_EQ(ErrorReason(refused), "MEMORY_SHORT");
  EXPECT_EQ(store_->loads(), loads + 1) << "its messages are not read";
  EXPECT_THAT(Bodies(Key("small")), testing::SizeIs(1)) << "a small session needs no room";
  other.Release();
  EXPECT_THAT(Bodies(Key("s")), testing::SizeIs(3));
  engine_.reset();
  EXPECT_EQ(budget.HeldByUse(), MemoryByUse());
}

TEST_F(EngineMemoryTest, AJobWhoseSessionCannotBeReadYetWaits) {
  constexpr std::int64_t kMib = std::int64_t{1} << 20;
  MemoryBudget budget(10 * kMib);
  EngineOptions options = Limited(budget);
  Start(options);
  {
    // The job finds no room until the engine ends.
    const auto other = budget.Count("tenant", MemoryUse::kReplies, 6 * kMib);
    WriteRequest create = NewWrite(commands::CreateSession(), Key("s"));
    SettingsOf(create) = WithSummary();
    SettingsOf(create)->token_limit = 11;
    SettingsOf(create)->chat_history_token_ratio = 1;
    MustDo(std::move(create));
    for (const std::string& text :
         {std::string("one two"), std::string(2 * kMib, 'x'), std::string("three")}) {
      MustDo(NewWrite(commands::Put(), Key("s"), {{"user", text}}));
    }
    engine_.reset();
  }
  auto other = budget.Count("tenant", MemoryUse::kReplies, 9 * kMib);
  Start(options);
  Until([this] { return engine_->stats().jobs_short_of_memory > 3; });
  EXPECT_EQ(engine_->stats().job_failures, 0U);
  other.Release();
  models_.chat->Answer("a summary");
  Until([this] { return FirstJob(Key("s")).state == JobState::kDone; });
  EXPECT_EQ(FirstJob(Key("s")).attempts, 1) << "to wait is no attempt";
  engine_.reset();
  EXPECT_EQ(budget.HeldByUse(), MemoryByUse());
}

// Calls that end well, are refused, lose to others, come too late, or meet a store that fails, and
// jobs that end in each way.
TEST_F(EngineMemoryTest, AfterAnyMixOfCallsOnlyCachesAreCounted) {
  MemoryBudget budget(2'000'000);
  EngineOptions options = Limited(budget);
  options.committers = 2;
  options.max_pending_calls = 32;
  // Jobs of sessions that are gone stay open until they are swept.
  options.sweep_interval = std::chrono::milliseconds(20);
  // And what failed when a job ended is done again once nobody renews the job.
  options.jobs.lease_time = std::chrono::milliseconds(900);
  Start(std::move(options));
  std::atomic<bool> stopped{false};
  std::thread model([this, &stopped] { AnswerOrFail(stopped); });
  std::vector<std::thread> callers;
  for (unsigned seed = 0; seed < 4; ++seed) {
    callers.emplace_back([this, seed] { CallInAllWays(seed); });
  }
  for (std::thread& caller : callers) caller.join();
  store_->FailReads(absl::OkStatus());
  Until([this] { return engine_->jobs().held() == 0 && real_->CountJobs()->open == 0; });
  stopped = true;
  model.join();
  // The last callbacks let go of what they hold after the call has ended.
  Until([&budget, this] {
    const MemoryByUse held = budget.HeldByUse();
    for (std::size_t use = 0; use < held.size(); ++use) {
      if (!IsCache(static_cast<MemoryUse>(use)) && held[use] != 0) return false;
    }
    return budget.held() == static_cast<std::int64_t>(engine_->cache().ByteSize());
  });
  engine_.reset();
  EXPECT_EQ(budget.HeldByUse(), MemoryByUse());
  EXPECT_EQ(budget.holders(), 0);
}

}  // namespace
}  // namespace memoryd
