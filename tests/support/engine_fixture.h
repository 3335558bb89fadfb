// Engines over a real store in memory, whose faults a test controls.
#ifndef MEMORYD_TESTS_SUPPORT_ENGINE_FIXTURE_H_
#define MEMORYD_TESTS_SUPPORT_ENGINE_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/engine/engine.h"
#include "tests/support/fake_clock.h"
#include "tests/support/faulty_store.h"
#include "tests/support/memory_store.h"
#include "tests/support/plain_body_reader.h"
#include "tests/support/writes.h"

namespace memoryd {

// A copy that shares nothing. Debian's Abseil is not instrumented, so that ThreadSanitizer sees no
// order in the counting of a status two threads share: what a test passes on is its own.
inline absl::Status Detached(const absl::Status& status) {
  if (status.ok()) return status;
  return Error(status.code(), ErrorReason(status), std::string(status.message()),
               ErrorDetails(status));
}
template <typename T>
absl::StatusOr<T> Detached(absl::StatusOr<T> result) {
  if (result.ok()) return result;
  return Detached(result.status());
}

struct WriteOutcome {
  absl::Status status;
  std::string reply;
  bool replayed = false;
};
inline WriteOutcome OutcomeOf(absl::StatusOr<WriteReply> reply) {
  if (!reply.ok()) return {Detached(reply.status()), {}, false};
  return {absl::OkStatus(), std::move(reply->encoded), reply->replayed};
}

// What a future holds; a call that never ends fails the test rather than hanging it.
template <typename T>
T Await(std::future<T> future) {
  if (future.wait_for(std::chrono::seconds(60)) != std::future_status::ready) {
    ADD_FAILURE() << "a call did not end";
    std::abort();
  }
  return future.get();
}

inline Engine::Deadline In(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}
inline Engine::Deadline Far() { return In(std::chrono::hours(1)); }

class EngineTest : public ::testing::Test {
 public:
  // Whatever a test has done, nothing is counted once its engines are gone.
  ~EngineTest() override {
    engine_.reset();
    EXPECT_EQ(memory_.HeldByUse(), MemoryByUse());
    EXPECT_EQ(memory_.holders(), 0);
  }

 protected:
  void SetUp() override {
    auto store = OpenMemoryStore();
    ASSERT_TRUE(store.ok()) << store.status();
    real_ = *std::move(store);
    store_ = std::make_unique<FaultyStore>(real_.get());
  }

  // One committer, so that all writes meet in its queue.
  EngineOptions Options(Coherence coherence = Coherence::kExclusive) {
    EngineOptions options;
    options.coherence = coherence;
    options.committers = 1;
    options.bodies = &bodies_;
    options.memory = &memory_;
    options.clock = &clock_;
    options.random = &random_numbers_;
    return options;
  }
  void Start(EngineOptions options) {
    engine_.reset();
    engine_ = std::make_unique<Engine>(store_.get(), std::move(options));
  }

  static std::future<WriteOutcome> Submit(Engine& engine, WriteRequest request) {
    auto promise = std::make_shared<std::promise<WriteOutcome>>();
    engine.Submit(std::move(request), [promise](absl::StatusOr<WriteReply> reply) {
      promise->set_value(OutcomeOf(std::move(reply)));
    });
    return promise->get_future();
  }
  std::future<WriteOutcome> Submit(WriteRequest request) {
    return Submit(*engine_, std::move(request));
  }
  WriteOutcome Do(WriteRequest request) { return Await(Submit(std::move(request))); }
  void MustDo(WriteRequest request) {
    const WriteOutcome outcome = Do(std::move(request));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  }

  static std::future<absl::StatusOr<Context>> StartGet(Engine& engine, const SessionKey& key,
                                                       Engine::Deadline deadline = Far()) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<Context>>>();
    engine.Get(key, {}, deadline, [promise](absl::StatusOr<Context> context) {
      promise->set_value(Detached(std::move(context)));
    });
    return promise->get_future();
  }
  static absl::StatusOr<Context> Get(Engine& engine, const SessionKey& key) {
    return Await(StartGet(engine, key));
  }
  // The bodies that a Get returns.
  static std::vector<std::string> Bodies(Engine& engine, const SessionKey& key) {
    auto context = Get(engine, key);
    EXPECT_TRUE(context.ok()) << context.status();
    return context.ok() ? Bodies(context->messages) : std::vector<std::string>();
  }
  std::vector<std::string> Bodies(const SessionKey& key) { return Bodies(*engine_, key); }
  static std::vector<std::string> Bodies(const std::vector<MessagePtr>& messages) {
    std::vector<std::string> bodies;
    for (const MessagePtr& message : messages) bodies.emplace_back(message->body);
    return bodies;
  }

  absl::StatusOr<Page> ReadPage(PageRequest request) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<Page>>>();
    std::future<absl::StatusOr<Page>> future = promise->get_future();
    engine_->reads().ReadPage(std::move(request), Far(), [promise](absl::StatusOr<Page> page) {
      promise->set_value(Detached(std::move(page)));
    });
    return Await(std::move(future));
  }
  // Every message, page by page.
  std::vector<std::string> AllBodies(const SessionKey& key, std::int64_t page_size = 1000) {
    std::vector<std::string> bodies;
    PageRequest request;
    request.key = key;
    request.max_messages = page_size;
    do {
      auto page = ReadPage(request);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) return bodies;
      EXPECT_LE(static_cast<std::int64_t>(page->messages.size()), page_size);
      for (const MessagePtr& message : page->messages) bodies.emplace_back(message->body);
      request.generation = page->row.generation;
      request.from_position = page->next_position;
    } while (request.from_position != 0);
    return bodies;
  }

  MemoryBudget memory_{0};
  PlainBodyReader bodies_;
  std::unique_ptr<Store> real_;
  std::unique_ptr<FaultyStore> store_;
  std::atomic<std::int64_t> now_us_{1'000'000};
  std::atomic<std::uint64_t> random_{0};
  const FakeClock clock_{[this] { return ++now_us_; }};
  FakeRandom random_numbers_{[this] { return ++random_; }};
  std::unique_ptr<Engine> engine_;  // Last, since it uses the others.
};

}  // namespace memoryd

#endif  // MEMORYD_TESTS_SUPPORT_ENGINE_FIXTURE_H_
