#include "core/workers/worker_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/blocks/block.h"
#include "core/blocks/worker_block.h"
#include "core/llm/model.h"
#include "core/model/job.h"
#include "core/model/session_config.h"
#include "core/model/usage_count.h"
#include "core/workers/worker_call.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Clock = std::chrono::steady_clock;

// Takes note of what a worker would be sent.
class FakeLink final : public WorkerLink {
 public:
  struct Sent {
    std::int64_t id;
    std::shared_ptr<const WorkerCall> call;
  };

  void Send(std::int64_t call_id, std::shared_ptr<const WorkerCall> call) override {
    MutexLock lock(mutex_);
    sent_.push_back({call_id, std::move(call)});
  }
  bool Cancel(std::int64_t call_id) override {
    MutexLock lock(mutex_);
    cancelled_.push_back(call_id);
    return unsent_;
  }
  void Flush() override { ++flushes_; }

  std::vector<Sent> sent() const {
    MutexLock lock(mutex_);
    return sent_;
  }
  std::vector<std::int64_t> cancelled() const {
    MutexLock lock(mutex_);
    return cancelled_;
  }
  int flushes() const { return flushes_; }
  void Forget() {
    MutexLock lock(mutex_);
    sent_.clear();
  }
  // As if nothing had left yet.
  void HoldBack() {
    MutexLock lock(mutex_);
    unsent_ = true;
  }

 private:
  mutable Mutex mutex_;
  std::vector<Sent> sent_ MEMORYD_GUARDED_BY(mutex_);
  std::vector<std::int64_t> cancelled_ MEMORYD_GUARDED_BY(mutex_);
  bool unsent_ MEMORYD_GUARDED_BY(mutex_) = false;
  std::atomic<int> flushes_{0};
};

// What a call came to; ends once.
template <typename T>
class Outcome {
 public:
  std::function<void(absl::StatusOr<T>)> done() {
    return [state = state_](absl::StatusOr<T> result) {
      ASSERT_EQ(state->count.fetch_add(1), 0) << "done ran twice";
      state->promise.set_value(std::move(result));
    };
  }
  bool ended() const { return state_->count > 0; }
  // Waits.
  absl::StatusOr<T> Get() { return future_.get(); }

 private:
  struct State {
    std::atomic<int> count{0};
    std::promise<absl::StatusOr<T>> promise;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::future<absl::StatusOr<T>> future_ = state_->promise.get_future();
};

Clock::time_point Later() { return Clock::now() + std::chrono::minutes(5); }

WorkerOffer Offer(const std::string& name = "w", int calls = 8) {
  WorkerOffer offer;
  offer.name = name;
  offer.blocks = {{"mentions", true, true}, {"fixed", false, false}};
  offer.models = {"chat"};
  offer.embedders = {"embed"};
  offer.max_concurrent_calls = calls;
  return offer;
}

WorkerReply TextReply(std::string text) { return {WorkerTextReply{std::move(text)}, {1, 2, 3}}; }

TEST(WorkerRegistryMemoryTest, CallsTakeMemoryUntilTheyEnd) {
  MemoryBudget budget(100'000);
  WorkerRegistryOptions options;
  options.memory = &budget;
  WorkerRegistry registry(options);
  const auto link = std::make_shared<FakeLink>();
  const std::int64_t worker = registry.Attach("t", Offer(), link);
  const auto model = registry.FindChatModel("t", "w", "chat");
  ASSERT_TRUE(model.ok());
  const auto complete = [&model](std::size_t bytes) {
    ChatRequest request;
    request.messages.emplace_back().parts.emplace_back().text = std::string(bytes, 'x');
    Outcome<ChatReply> outcome;
    (*model)->Complete({}, std::move(request), Later(), outcome.done());
    return outcome;
  };
  Outcome<ChatReply> first = complete(20'000);
  EXPECT_GT(budget.held(), 40'000);
  EXPECT_EQ(ErrorReason(complete(20'000).Get().status()), "MEMORY_SHORT");
  registry.Answer(worker, link->sent().front().id, TextReply("yes"));
  EXPECT_TRUE(first.Get().ok());
  link->Forget();
  EXPECT_EQ(budget.held(), 0);
  // Of a job what its messages have taken already goes on.
  FeedRequest feed;
  feed.session.key = {"t", "s"};
  feed.deadline = Later();
  feed.memory = budget.Count("t", MemoryUse::kJobs, 77'000);
  Outcome<FeedResult> fed;
  registry.Put({"w", "mentions", ""}, std::move(feed), fed.done());
  EXPECT_EQ(budget.held(), 77'000);
  registry.Detach(worker);
  EXPECT_FALSE(fed.Get().ok());
  link->Forget();
  EXPECT_EQ(budget.held(), 0);
}

class WorkerRegistryTest : public ::testing::Test {
 protected:
  std::int64_t Attach(const std::shared_ptr<FakeLink>& link, WorkerOffer offer = Offer(),
                      const std::string& tenant = "t") {
    return registry_.Attach(tenant, std::move(offer), link);
  }

  // Asks for a completion of a chat with one message.
  Outcome<ChatReply> Complete(Clock::time_point deadline = Later(),
                              const std::string& text = "hi") {
    Outcome<ChatReply> outcome;
    ChatRequest request;
    request.messages.emplace_back().parts.emplace_back().text = text;
    if (model_ == nullptr) {
      auto found = registry_.FindChatModel("t", "w", "chat");
      EXPECT_TRUE(found.ok()) << found.status();
      if (found.ok()) model_ = *found;
    }
    model_->Complete({"t", "s", "b", "job"}, request, deadline, outcome.done());
    return outcome;
  }

  Outcome<FeedResult> Put(const std::string& block, const std::string& state = "before",
                          const std::string& tenant = "t") {
    Outcome<FeedResult> outcome;
    FeedRequest request;
    request.session.key = {tenant, "s"};
    request.state.state = state;
    request.messages.emplace_back().id = "m1";
    request.job_id = "job-7";
    request.attempt = 2;
    request.deadline = Later();
    request.usage = usage_;
    registry_.Put({"w", block, "{}"}, std::move(request), outcome.done());
    return outcome;
  }

  WorkerRegistry registry_{
      {.max_waiting_calls = 4, .max_waiting_bytes = 100'000, .max_call_bytes = 50'000}};
  std::shared_ptr<FakeLink> link_ = std::make_shared<FakeLink>();
  std::shared_ptr<UsageCount> usage_ = std::make_shared<UsageCount>();  // Of Put().
  std::shared_ptr<ChatModel> model_;
};

TEST_F(WorkerRegistryTest, ACallGoesToTheWorkerAndItsAnswerBack) {
  const std::int64_t worker = Attach(link_);
  Outcome<ChatReply> outcome = Complete();
  ASSERT_EQ(link_->sent().size(), 1u);
  EXPECT_GE(link_->flushes(), 1);
  const WorkerCall& call = *link_->sent()[0].call;
  EXPECT_EQ(call.session, "s");
  EXPECT_EQ(call.block, "b");
  EXPECT_EQ(call.job_id, "job");
  EXPECT_EQ(std::get<WorkerComplete>(call.request).model, "chat");
  EXPECT_FALSE(outcome.ended());
  registry_.Answer(worker, link_->sent()[0].id, TextReply("hello"));
  const auto reply = outcome.Get();
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->text, "hello");
  EXPECT_EQ(reply->usage, (Usage{1, 2, 3}));
  EXPECT_EQ(registry_.open_calls(), 0u);
}

TEST_F(WorkerRegistryTest, SaysWhenAWorkerHasBeenAttached) {
  std::vector<std::size_t> attached;
  registry_.OnAttach([&] { attached.push_back(registry_.attached()); });
  const std::int64_t worker = Attach(link_);
  registry_.Detach(worker);
  EXPECT_EQ(attached, std::vector<std::size_t>{1});
}

TEST_F(WorkerRegistryTest, NobodyOfTheNameIsElsewhereAndNoOtherTenantIsFound) {
  EXPECT_EQ(ErrorReason(registry_.FindChatModel("t", "w", "chat").status()), "WORKER_ELSEWHERE");
  Attach(link_);
  EXPECT_TRUE(registry_.FindChatModel("t", "w", "chat").ok());
  for (const auto& [tenant, name] :
       {std::pair("other", "w"), std::pair("t", "v"), std::pair("", "w"), std::pair("tw", "")}) {
    const absl::Status status = registry_.FindChatModel(tenant, name, "chat").status();
    EXPECT_FALSE(status.ok()) << tenant << "/" << name;
    EXPECT_FALSE(registry_.FindEmbedder(tenant, name, "embed").ok());
  }
  const auto put = Put("mentions", "before", "other").Get();
  EXPECT_TRUE(absl::IsUnavailable(put.status()));
  EXPECT_EQ(ErrorReason(put.status()), "WORKER_ELSEWHERE");
  EXPECT_TRUE(link_->sent().empty());
}

TEST_F(WorkerRegistryTest, AnUnknownNameIsAFailedPrecondition) {
  Attach(link_);
  EXPECT_EQ(ErrorReason(registry_.FindChatModel("t", "w", "x").status()), "WORKER_LACKS_MODEL");
  EXPECT_EQ(ErrorReason(registry_.FindEmbedder("t", "w", "x").status()), "WORKER_LACKS_EMBEDDER");
  const auto put = Put("x").Get();
  EXPECT_TRUE(absl::IsFailedPrecondition(put.status()));
  EXPECT_EQ(ErrorReason(put.status()), "WORKER_LACKS_BLOCK");
}

TEST_F(WorkerRegistryTest, APutReplacesTheStateOrKeepsIt) {
  const std::int64_t worker = Attach(link_);
  Outcome<FeedResult> replaced = Put("mentions");
  Outcome<FeedResult> kept = Put("mentions");
  Outcome<FeedResult> large = Put("mentions");
  const auto sent = link_->sent();
  ASSERT_EQ(sent.size(), 3u);
  const auto& put = std::get<WorkerPut>(sent[0].call->request);
  EXPECT_EQ(put.state, "before");
  EXPECT_EQ(put.attempt, 2);
  EXPECT_EQ(put.messages.size(), 1u);
  EXPECT_EQ(sent[0].call->job_id, "job-7");
  registry_.Answer(worker, sent[1].id, WorkerReply{WorkerPutReply{}, {}});
  registry_.Answer(worker, sent[0].id, WorkerReply{WorkerPutReply{"after"}, {2, 3, 4}});
  registry_.Answer(worker, sent[2].id,
                   WorkerReply{WorkerPutReply{std::string(kMaxBlockState + 1, 'x')}, {}});
  EXPECT_EQ(replaced.Get()->state, "after");
  EXPECT_EQ(kept.Get()->state, "before");
  EXPECT_EQ(ErrorReason(large.Get().status()), "STATE_TOO_LARGE");
  EXPECT_EQ(usage_->Total(), (Usage{2, 3, 4}));
}

TEST_F(WorkerRegistryTest, WhatABlockDoesNotDoIsNotAsked) {
  Attach(link_);
  EXPECT_EQ(Put("fixed").Get()->state, "before");
  Outcome<BlockContent> truncated;
  BlockContent content;
  content.parts.emplace_back().text = "much";
  registry_.Truncate({"w", "fixed", ""}, {{"t", "s"}, Profile::kDefault}, content, 3, Later(),
                     truncated.done());
  EXPECT_TRUE(truncated.Get()->empty());
  EXPECT_TRUE(link_->sent().empty());
}

TEST_F(WorkerRegistryTest, TheBlockOfASessionAsksItsWorker) {
  const std::int64_t worker = Attach(link_);
  BlockSettings settings;
  settings.name = "mentions";
  settings.worker = "w";
  settings.options_json = R"({"a":1})";
  const auto block = std::make_shared<const WorkerBlock>(
      settings, ReadWorkerTraits(settings, "block", Profile::kDefault), &registry_, &registry_);
  EXPECT_TRUE(block->feeds());
  RenderRequest request;
  request.session.key = {"t", "s"};
  auto state = std::make_shared<BlockState>();
  state->state = "known";
  request.state = state;
  request.deadline = Later();
  Outcome<BlockContent> rendered;
  block->Render(request, rendered.done());
  ASSERT_EQ(link_->sent().size(), 1u);
  const auto& get = std::get<WorkerGet>(link_->sent()[0].call->request);
  EXPECT_EQ(get.state, "known");
  EXPECT_EQ(get.options_json, R"({"a":1})");
  BlockContent content;
  content.parts.emplace_back().text = "said";
  registry_.Answer(worker, link_->sent()[0].id, WorkerReply{content, {}});
  const auto said = rendered.Get();
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(said->parts.at(0).text, "said");
}

TEST_F(WorkerRegistryTest, AnotherKindOfAnswerIsDataLoss) {
  const std::int64_t worker = Attach(link_);
  Outcome<ChatReply> outcome = Complete();
  registry_.Answer(worker, link_->sent()[0].id, WorkerReply{WorkerPutReply{"x"}, {}});
  EXPECT_TRUE(absl::IsDataLoss(outcome.Get().status()));
}

TEST_F(WorkerRegistryTest, EmbeddingsAreChecked) {
  const std::int64_t worker = Attach(link_);
  const auto embedder = registry_.FindEmbedder("t", "w", "embed");
  ASSERT_TRUE(embedder.ok());
  using Vectors = std::vector<std::vector<float>>;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [vectors, good] :
       {std::pair(Vectors{{1, 2}, {3, 4}}, true), std::pair(Vectors{{1, 2}}, false),
        std::pair(Vectors{{1, 2}, {3}}, false), std::pair(Vectors{{}, {}}, false),
        std::pair(Vectors{{1, nan}, {1, 2}}, false), std::pair(Vectors{}, false)}) {
    Outcome<EmbedReply> outcome;
    (*embedder)->Embed({"t", "s", "b", ""}, EmbedPurpose::kQuery, {"a", "b"}, Later(),
                       outcome.done());
    const auto sent = link_->sent().back();
    EXPECT_EQ(std::get<WorkerEmbed>(sent.call->request).purpose, EmbedPurpose::kQuery);
    registry_.Answer(worker, sent.id, WorkerReply{WorkerVectorsReply{vectors}, {}});
    const auto reply = outcome.Get();
    EXPECT_EQ(reply.ok(), good);
    if (!good) {
      EXPECT_TRUE(absl::IsDataLoss(reply.status())) << reply.status();
    }
  }
}

TEST_F(WorkerRegistryTest, AnswersOfOthersLateOnesAndUnknownOnesAreIgnored) {
  const std::int64_t worker = Attach(link_);
  const auto other_link = std::make_shared<FakeLink>();
  const std::int64_t other = Attach(other_link, Offer(), "other");
  Outcome<ChatReply> outcome = Complete();
  const std::int64_t id = link_->sent()[0].id;
  registry_.Answer(other, id, TextReply("forged"));
  registry_.Answer(worker, id + 100, TextReply("unknown"));
  registry_.Answer(worker + 100, id, TextReply("nobody"));
  EXPECT_FALSE(outcome.ended());
  registry_.Answer(worker, id, TextReply("good"));
  registry_.Answer(worker, id, TextReply("again"));
  EXPECT_EQ(outcome.Get()->text, "good");
  EXPECT_EQ(registry_.stats().ignored_results(), 4u);
}

TEST_F(WorkerRegistryTest, AWorkerThatGoesFailsItsCalls) {
  const std::int64_t worker = Attach(link_, Offer("w", 1));
  Outcome<ChatReply> running = Complete();
  Outcome<ChatReply> waiting = Complete();
  EXPECT_EQ(registry_.waiting(), 1u);
  registry_.Detach(worker);
  for (Outcome<ChatReply>* outcome : {&running, &waiting}) {
    const absl::Status status = outcome->Get().status();
    EXPECT_TRUE(absl::IsUnavailable(status));
    EXPECT_EQ(ErrorReason(status), "WORKER_GONE");
  }
  EXPECT_EQ(registry_.waiting(), 0u);
  EXPECT_EQ(registry_.attached(), 0u);
  registry_.Detach(worker);
  EXPECT_EQ(ErrorReason(Complete().Get().status()), "WORKER_ELSEWHERE");
}

TEST_F(WorkerRegistryTest, WhatWaitsGoesToWhoeverIsLeftOrComes) {
  const auto other = std::make_shared<FakeLink>();
  const std::int64_t first = Attach(link_, Offer("w", 1));
  Outcome<ChatReply> one = Complete();
  Outcome<ChatReply> two = Complete();
  EXPECT_EQ(registry_.waiting(), 1u);
  const std::int64_t second = Attach(other, Offer("w", 1));
  ASSERT_EQ(other->sent().size(), 1u);
  Outcome<ChatReply> three = Complete();
  registry_.Detach(first);
  EXPECT_FALSE(one.Get().ok());
  EXPECT_FALSE(three.ended());
  registry_.Answer(second, other->sent()[0].id, TextReply("two"));
  EXPECT_EQ(two.Get()->text, "two");
  ASSERT_EQ(other->sent().size(), 2u);
  registry_.Answer(second, other->sent()[1].id, TextReply("three"));
  EXPECT_EQ(three.Get()->text, "three");
}

TEST_F(WorkerRegistryTest, APoolSharesCallsEvenlyAndByWhatItsWorkersServe) {
  const auto other = std::make_shared<FakeLink>();
  Attach(link_, Offer("w", 100));
  WorkerOffer more = Offer("w", 100);
  more.models.emplace_back("new");
  Attach(other, more);
  std::vector<Outcome<ChatReply>> outcomes;
  for (int i = 0; i < 10; ++i) outcomes.push_back(Complete());
  EXPECT_EQ(link_->sent().size(), 5u);
  EXPECT_EQ(other->sent().size(), 5u);
  model_ = *registry_.FindChatModel("t", "w", "new");
  for (int i = 0; i < 10; ++i) outcomes.push_back(Complete());
  EXPECT_EQ(link_->sent().size(), 5u);
  EXPECT_EQ(other->sent().size(), 15u);
}

TEST_F(WorkerRegistryTest, AQueueIsBounded) {
  const std::int64_t worker = Attach(link_, Offer("w", 1));
  std::vector<Outcome<ChatReply>> outcomes;
  for (int i = 0; i < 5; ++i) outcomes.push_back(Complete());
  const absl::Status busy = Complete().Get().status();
  EXPECT_TRUE(absl::IsResourceExhausted(busy));
  EXPECT_EQ(ErrorReason(busy), "WORKER_BUSY");
  for (std::size_t i = 0; i < 5; ++i) {
    ASSERT_EQ(link_->sent().size(), i + 1);
    registry_.Answer(worker, link_->sent()[i].id, TextReply(std::to_string(i)));
  }
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(outcomes[i].Get()->text, std::to_string(i));
}

TEST_F(WorkerRegistryTest, BytesThatWaitAndThoseOfACallAreBounded) {
  Attach(link_, Offer("w", 1));
  EXPECT_EQ(ErrorReason(Complete(Later(), std::string(50'001, 'x')).Get().status()),
            "WORKER_CALL_TOO_LARGE");
  Outcome<ChatReply> running = Complete();
  Outcome<ChatReply> one = Complete(Later(), std::string(49'000, 'x'));
  Outcome<ChatReply> two = Complete(Later(), std::string(49'000, 'x'));
  EXPECT_EQ(ErrorReason(Complete(Later(), std::string(49'000, 'x')).Get().status()), "WORKER_BUSY");
  EXPECT_FALSE(one.ended() || two.ended() || running.ended());
}

TEST_F(WorkerRegistryTest, ACallEndsAtItsDeadlineAndKeepsItsPlaceUntilAnswered) {
  const std::int64_t worker = Attach(link_, Offer("w", 1));
  Outcome<ChatReply> late = Complete(Clock::now() + std::chrono::milliseconds(100));
  const absl::Status status = late.Get().status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_EQ(ErrorReason(status), "WORKER_TIMEOUT");
  const std::int64_t id = link_->sent()[0].id;
  Outcome<ChatReply> next = Complete();
  EXPECT_EQ(registry_.waiting(), 1u);
  EXPECT_THAT(link_->cancelled(), ElementsAre(id));
  registry_.Answer(worker, id, TextReply("late"));
  ASSERT_EQ(link_->sent().size(), 2u);
  registry_.Answer(worker, link_->sent()[1].id, TextReply("next"));
  EXPECT_EQ(next.Get()->text, "next");
}

TEST_F(WorkerRegistryTest, ACallThatWasNeverSentGivesItsPlaceBack) {
  link_->HoldBack();
  const std::int64_t worker = Attach(link_, Offer("w", 1));
  Outcome<ChatReply> late = Complete(Clock::now() + std::chrono::milliseconds(100));
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.Get().status()));
  Outcome<ChatReply> next = Complete();
  ASSERT_EQ(link_->sent().size(), 2u);
  registry_.Answer(worker, link_->sent()[1].id, TextReply("next"));
  EXPECT_EQ(next.Get()->text, "next");
}

TEST_F(WorkerRegistryTest, ACallThatWaitsEndsAtItsDeadlineToo) {
  Attach(link_, Offer("w", 1));
  Outcome<ChatReply> running = Complete();
  Outcome<ChatReply> late = Complete(Clock::now() + std::chrono::milliseconds(100));
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.Get().status()));
  EXPECT_EQ(registry_.waiting(), 0u);
  EXPECT_THAT(link_->cancelled(), IsEmpty());
  EXPECT_TRUE(absl::IsDeadlineExceeded(Complete(Clock::now()).Get().status()));
}

TEST_F(WorkerRegistryTest, TheEndOfTheRegistryEndsAllCalls) {
  auto registry = std::make_unique<WorkerRegistry>();
  registry->Attach("t", Offer("w", 1), link_);
  const auto model = registry->FindChatModel("t", "w", "chat");
  ASSERT_TRUE(model.ok());
  Outcome<ChatReply> running;
  Outcome<ChatReply> waiting;
  (*model)->Complete({"t", "s", "b", ""}, {}, Clock::time_point::max(), running.done());
  (*model)->Complete({"t", "s", "b", ""}, {}, Clock::time_point::max(), waiting.done());
  registry.reset();
  EXPECT_TRUE(absl::IsUnavailable(running.Get().status()));
  EXPECT_TRUE(absl::IsUnavailable(waiting.Get().status()));
}

TEST_F(WorkerRegistryTest, ManyThreadsManyWorkersEveryCallEndsOnce) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 500;
  WorkerRegistry registry;
  const auto keeper_link = std::make_shared<FakeLink>();
  const std::int64_t keeper = registry.Attach("t", Offer("w", 3), keeper_link);
  const auto model = registry.FindChatModel("t", "w", "chat");
  ASSERT_TRUE(model.ok());
  std::atomic<int> ended{0};
  std::atomic<bool> stop{false};
  // One answers, one comes and goes.
  std::thread answering([&] {
    std::size_t answered = 0;
    while (!stop) {
      const auto sent = keeper_link->sent();
      if (answered == sent.size()) std::this_thread::yield();
      for (; answered < sent.size(); ++answered) {
        registry.Answer(keeper, sent[answered].id, TextReply("x"));
      }
    }
  });
  std::thread coming([&] {
    while (!stop) {
      const auto link = std::make_shared<FakeLink>();
      const std::int64_t worker = registry.Attach("t", Offer("w", 2), link);
      for (const auto& sent : link->sent()) registry.Answer(worker, sent.id, TextReply("y"));
      registry.Detach(worker);
    }
  });
  std::vector<std::thread> calling;
  for (int t = 0; t < kThreads; ++t) {
    calling.emplace_back([&] {
      for (int i = 0; i < kCalls; ++i) {
        const auto deadline = i % 7 == 0 ? Clock::now() + std::chrono::microseconds(50) : Later();
        (*model)->Complete({"t", "s", "b", ""}, {}, deadline,
                           [&ended](const absl::StatusOr<ChatReply>&) { ++ended; });
      }
    });
  }
  for (std::thread& thread : calling) thread.join();
  while (ended < kThreads * kCalls) std::this_thread::yield();
  stop = true;
  answering.join();
  coming.join();
  EXPECT_EQ(ended, kThreads * kCalls);
  EXPECT_EQ(registry.open_calls(), 0u);
  EXPECT_EQ(registry.waiting(), 0u);
}

}  // namespace
}  // namespace memoryd
