// What one tenant asks for does not hold up another, nor does what nobody waits for. All by order:
// there is one reader, or one committer, and the store waits until the test lets it go on.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/calls/call_end.h"
#include "core/engine/engine.h"
#include "core/model/session.h"
#include "core/reads/context.h"
#include "core/reads/page.h"
#include "core/writes/write.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

const SessionKey kLarge{"large", "session"};
const SessionKey kSmall{"small", "session"};

class Watch : public CallWatch {
 public:
  bool IsCancelled() const override { return cancelled_.load(); }
  void Cancel() { cancelled_.store(true); }

 private:
  std::atomic<bool> cancelled_{false};
};

class EngineFairnessTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    EngineOptions options = Options();
    options.readers = 1;
    Start(options);
    MustDo(NewPut(kLarge, {{"user", "m"}}));
    MustDo(NewPut(kSmall, {{"user", "m"}}));
    // So that the small session has to be read.
    Start(options);
    EXPECT_TRUE(Get(*engine_, kLarge).ok());
  }

  // Holds the reader in a page of the large tenant's until Release().
  void HoldReader() {
    std::promise<void> reading;
    store_->BeforeNextRows([this, &reading] {
      reading.set_value();
      released_.get_future().wait();
    });
    StartPage("held");
    reading.get_future().wait();
  }
  void Release() { released_.set_value(); }

  void StartPage(const std::string& name, std::shared_ptr<const CallWatch> watch = nullptr) {
    PageRequest request;
    request.key = kLarge;
    engine_->reads().ReadPage(
        std::move(request), {Far(), std::move(watch)},
        [this, name](absl::StatusOr<Page> page) { Note(name, page.status()); });
  }
  void StartSmallGet(std::shared_ptr<const CallWatch> watch = nullptr) {
    engine_->Get(kSmall, {}, {Far(), std::move(watch)},
                 [this](absl::StatusOr<Context> context) { Note("get", context.status()); });
  }
  void StartPut(const std::string& name, const SessionKey& key, std::size_t bytes) {
    WriteRequest put = NewPut(key, {{"user", std::string(bytes, 'x')}});
    put.byte_size = bytes;
    engine_->Submit(std::move(put), [this, name](const absl::StatusOr<WriteReply>& reply) {
      Note(name, reply.status());
    });
  }
  void Note(const std::string& name, const absl::Status& status) {
    MutexLock lock(mutex_);
    names_.push_back(name);
    codes_.push_back(status.code());
  }
  // What has ended, in its order, once all has.
  std::vector<std::string> Ended() {
    EXPECT_TRUE(engine_->Drain(Far()));
    MutexLock lock(mutex_);
    return names_;
  }
  std::vector<absl::StatusCode> Codes() {
    MutexLock lock(mutex_);
    return codes_;
  }

  std::promise<void> released_;
  Mutex mutex_;
  std::vector<std::string> names_ MEMORYD_GUARDED_BY(mutex_);
  std::vector<absl::StatusCode> codes_ MEMORYD_GUARDED_BY(mutex_);
};

TEST_F(EngineFairnessTest, ASmallGetDoesNotWaitBehindAllPagesOfAnotherTenant) {
  HoldReader();
  for (const char* const name : {"p1", "p2", "p3", "p4"}) StartPage(name);
  StartSmallGet();
  Release();
  EXPECT_THAT(Ended(), ElementsAre("held", "get", "p1", "p2", "p3", "p4"));
  EXPECT_THAT(Codes(), Each(absl::StatusCode::kOk));
}

TEST_F(EngineFairnessTest, PagesThatNobodyWaitsForAreNotRead) {
  HoldReader();
  const auto watch = std::make_shared<Watch>();
  for (const char* const name : {"p1", "p2", "p3"}) StartPage(name, watch);
  watch->Cancel();
  Release();
  EXPECT_THAT(Ended(), ElementsAre("held", "p1", "p2", "p3"));
  EXPECT_THAT(Codes(), ElementsAre(absl::StatusCode::kOk, absl::StatusCode::kCancelled,
                                   absl::StatusCode::kCancelled, absl::StatusCode::kCancelled));
  EXPECT_EQ(store_->range_rows(), 1U);
  EXPECT_EQ(engine_->stats().cancelled_reads, 3U);
}

TEST_F(EngineFairnessTest, ASessionThatNobodyWaitsForIsNotLoaded) {
  HoldReader();
  const int before = store_->loads();
  const auto watch = std::make_shared<Watch>();
  StartSmallGet(watch);
  watch->Cancel();
  Release();
  EXPECT_THAT(Ended(), ElementsAre("held", "get"));
  EXPECT_EQ(Codes().back(), absl::StatusCode::kCancelled);
  EXPECT_EQ(store_->loads(), before);
}

TEST_F(EngineFairnessTest, ASessionIsLoadedForWhoeverStillWaits) {
  HoldReader();
  const auto watch = std::make_shared<Watch>();
  StartSmallGet(watch);
  StartSmallGet();
  watch->Cancel();
  Release();
  EXPECT_THAT(Ended(), ElementsAre("held", "get", "get"));
  EXPECT_THAT(Codes(), ElementsAre(absl::StatusCode::kOk, absl::StatusCode::kCancelled,
                                   absl::StatusCode::kOk));
}

TEST_F(EngineFairnessTest, ALargeGetIsComposedByAReader) {
  const auto composer = [this](const SessionKey& key) {
    auto promise = std::make_shared<std::promise<std::thread::id>>();
    auto future = promise->get_future();
    engine_->Get(key, {}, Far(), [promise](const absl::StatusOr<Context>&) {
      promise->set_value(std::this_thread::get_id());
    });
    return Await(std::move(future));
  };
  MustDo(NewPut(kSmall, {{"user", std::string(1000, 'x')}}));
  MustDo(NewPut(kLarge, {{"user", std::string(300 << 10, 'x')}}));
  EXPECT_EQ(composer(kSmall), std::this_thread::get_id());
  EXPECT_NE(composer(kLarge), std::this_thread::get_id());
}

TEST_F(EngineFairnessTest, ASmallPutDoesNotWaitBehindAllLargeOnesOfAnotherTenant) {
  const std::vector<std::string> names = {"1", "2", "3", "4", "5", "6"};
  // In memory, so that their writes go to the committer at once.
  for (const std::string& name : names) EXPECT_TRUE(Get(*engine_, {"large", name}).ok());
  EXPECT_TRUE(Get(*engine_, kSmall).ok());
  store_->StallCommits();
  StartPut("held", kLarge, 10);
  store_->AwaitStalled(1);
  for (const std::string& name : names) StartPut(name, {"large", name}, 3 << 20);
  StartPut("small", kSmall, 10);
  store_->ReleaseCommits();
  const std::vector<std::string> ended = Ended();
  const auto small = std::find(ended.begin(), ended.end(), "small");
  EXPECT_LE(small - ended.begin(), 2) << "of the first batch after the one that was held";
  EXPECT_THAT(Codes(), Each(absl::StatusCode::kOk));
}

TEST_F(EngineFairnessTest, WritesThatWaitShutNoOtherTenantOut) {
  EngineOptions options = Options();
  options.max_pending_bytes = 1000;
  Start(options);
  EXPECT_TRUE(Get(*engine_, kLarge).ok());
  EXPECT_TRUE(Get(*engine_, kSmall).ok());
  store_->StallCommits();
  StartPut("1", kLarge, 600);
  StartPut("2", kLarge, 400);
  StartPut("refused", kLarge, 100);
  StartPut("small", kSmall, 100);
  store_->ReleaseCommits();
  EXPECT_THAT(Ended(), UnorderedElementsAre("refused", "1", "2", "small"));
  EXPECT_EQ(Codes().front(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(engine_->stats().refused_bytes, 1U);
}

class LargeWritesTest : public EngineFairnessTest {
 protected:
  void SetUp() override {
    EngineFairnessTest::SetUp();
    EngineOptions options = Options();
    options.large_writes_apart = true;
    Start(options);
    EXPECT_TRUE(Get(*engine_, kLarge).ok());
    EXPECT_TRUE(Get(*engine_, kSmall).ok());
    store_->StallCommits();
  }

  // So many messages that a store takes long.
  void StartLargePut(const std::string& name) {
    engine_->Submit(
        NewPut(kLarge, std::vector<Line>(100, {"user", "of many"})),
        [this, name](const absl::StatusOr<WriteReply>& reply) { Note(name, reply.status()); });
  }
};

TEST_F(LargeWritesTest, OthersDoNotWaitBehindOne) {
  StartLargePut("many");
  store_->AwaitStalled(1);
  StartPut("bytes", {"other", "session"}, std::size_t{256} << 10);
  StartPut("small", kSmall, 100);
  // With the first of the large ones; the second waits behind it.
  store_->AwaitStalled(2);
  EXPECT_EQ(store_->batches().back().messages, 1U);
  StartPut("same session", kSmall, 100);
  store_->ReleaseCommits();
  EXPECT_THAT(Ended(), UnorderedElementsAre("many", "bytes", "small", "same session"));
  EXPECT_THAT(Codes(), Each(absl::StatusCode::kOk));
}

TEST_F(LargeWritesTest, WritesOfItsSessionWaitBehindIt) {
  StartLargePut("many");
  store_->AwaitStalled(1);
  StartPut("behind it", kLarge, 1);
  StartPut("small", kSmall, 100);
  store_->AwaitStalled(2);
  store_->ReleaseCommits();
  EXPECT_THAT(Ended(), UnorderedElementsAre("many", "behind it", "small"));
  EXPECT_THAT(Codes(), Each(absl::StatusCode::kOk));
  const std::vector<std::string> bodies = AllBodies(kLarge);
  ASSERT_EQ(bodies.size(), 102U);
  EXPECT_THAT(bodies.back(), testing::HasSubstr("x"));
  EXPECT_EQ(store_->batches().at(store_->batches().size() - 3).messages, 100U);
}

TEST_F(LargeWritesTest, ASessionIsFreeToGoElsewhereOnceItsWriteIsAnswered) {
  store_->ReleaseCommits();
  MustDo(NewPut(kLarge, {{"user", "small"}}));
  store_->StallCommits();
  StartLargePut("many");
  store_->AwaitStalled(1);
  StartPut("small", kSmall, 100);
  store_->AwaitStalled(2);
  store_->ReleaseCommits();
  EXPECT_THAT(Ended(), UnorderedElementsAre("many", "small"));
  EXPECT_THAT(Codes(), Each(absl::StatusCode::kOk));
}

TEST_F(LargeWritesTest, OneThatComesBehindASmallOneOfItsSessionWaitsForIt) {
  StartPut("small", kLarge, 1);
  store_->AwaitStalled(1);
  StartLargePut("many");
  StartPut("other", kSmall, 100);
  const int loads = store_->loads();
  store_->ReleaseCommits();
  EXPECT_THAT(Ended(), UnorderedElementsAre("small", "many", "other"));
  EXPECT_EQ(store_->loads(), loads) << "two committers wrote to the session";
  EXPECT_THAT(Codes(), Each(absl::StatusCode::kOk));
  const std::vector<std::string> bodies = AllBodies(kLarge);
  ASSERT_EQ(bodies.size(), 102U);
  EXPECT_THAT(bodies.at(1), testing::HasSubstr("x"));
}

TEST_F(EngineFairnessTest, APageAsksForItsMemoryBeforeItIsRead) {
  MemoryBudget budget(4'000'000);
  EngineOptions options = Options();
  options.memory = &budget;
  Start(options);
  constexpr std::size_t kBytes = 600'000;
  MustDo(NewPut(kLarge, {{"user", std::string(kBytes, 'x')}}));
  PageRequest request;
  request.key = kLarge;
  const auto replies = [&budget] {
    return budget.HeldByUse()[static_cast<std::size_t>(MemoryUse::kReplies)];
  };
  {
    const auto jobs = budget.Count("large", MemoryUse::kJobs, 1'500'000);
    EXPECT_EQ(ErrorReason(ReadPage(request).status()), "MEMORY_SHORT");
    EXPECT_EQ(store_->range_rows(), 0U);
    EXPECT_EQ(replies(), 0);
  }
  {
    const auto page = ReadPage(request);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_EQ(page->memory.bytes(), static_cast<std::int64_t>(kBytes + 1));
    EXPECT_EQ(replies(), page->memory.bytes());
  }
  EXPECT_EQ(replies(), 0);
  engine_.reset();
  EXPECT_EQ(budget.held(), 0);
}

}  // namespace
}  // namespace memoryd
