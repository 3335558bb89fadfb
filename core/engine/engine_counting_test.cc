// Which thread counts tokens, and in what order. The one thread that counts texts that take long
// asks the test for the time, and so waits until the test lets it go on.
#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/engine/engine.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/writes/write.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const SessionKey kLarge{"large", "session"};
const SessionKey kSmall{"small", "session"};

// One word, which takes long to count: 125,000 bytes are 15,625 tokens of cl100k_base, and a
// message counts 4 more.
const std::string kLongWord(125'000, 'a');
constexpr std::int64_t kLongTokens = 15'625 + 4;

class EngineCountingTest : public EngineTest {
 protected:
  // It asks the test for the time, and may use a budget of the test's own.
  void TearDown() override { engine_.reset(); }

  EngineOptions Counting() {
    EngineOptions options = Options();
    options.readers = 1;
    options.counters = 1;
    options.counters_clock = [this] { return Time(); };
    options.vocabulary_directory = MEMORYD_TEST_VOCABULARY_DIR;
    return options;
  }

  // Every turn takes a second.
  std::chrono::steady_clock::time_point Time() {
    MutexLock lock(mutex_);
    ++asked_;
    changed_.NotifyAll();
    while (held_) changed_.Wait(mutex_);
    time_ += std::chrono::milliseconds(500);
    return time_;
  }
  void Hold() {
    MutexLock lock(mutex_);
    held_ = true;
  }
  void Release() {
    MutexLock lock(mutex_);
    held_ = false;
    changed_.NotifyAll();
  }
  // Until the thread that counts has something to do.
  void AwaitTurn() {
    const auto patience = In(std::chrono::seconds(60));
    MutexLock lock(mutex_);
    while (asked_ == 0) {
      if (changed_.WaitUntil(mutex_, patience)) continue;
      FAIL() << "nothing is counted apart";
    }
  }
  // By threads that count.
  int Turns() {
    MutexLock lock(mutex_);
    return (asked_ + 1) / 2;
  }

  static SessionSettings With(const std::string& tokenizer) {
    SessionSettings settings;
    settings.tokenizer = tokenizer;
    return settings;
  }
  void Create(const SessionKey& key, const std::string& tokenizer = "cl100k_base") {
    WriteRequest create = NewWrite(commands::CreateSession(), key);
    SettingsOf(create) = With(tokenizer);
    MustDo(std::move(create));
  }
  static WriteRequest Uncounted(WriteCommand command, const SessionKey& key,
                                const std::vector<std::string>& texts) {
    std::vector<Line> lines;
    for (const std::string& text : texts) lines.push_back({"user", text});
    return NewWrite(std::move(command), key, std::move(lines));
  }
  static WriteRequest Put(const SessionKey& key, const std::string& text) {
    return Uncounted(commands::Put(), key, {text});
  }
  std::future<WriteOutcome> Start(const std::string& name, WriteRequest request) {
    auto promise = std::make_shared<std::promise<WriteOutcome>>();
    engine_->Submit(std::move(request), [this, name, promise](absl::StatusOr<WriteReply> reply) {
      {
        MutexLock lock(mutex_);
        ended_.push_back(name);
      }
      promise->set_value(OutcomeOf(std::move(reply)));
    });
    return promise->get_future();
  }
  std::vector<std::string> Ended() {
    MutexLock lock(mutex_);
    return ended_;
  }
  std::int64_t TokensOf(const SessionKey& key) {
    const auto context = Get(*engine_, key);
    EXPECT_TRUE(context.ok()) << context.status();
    return context.ok() ? context->token_count : -1;
  }

  Mutex mutex_;
  CondVar changed_;
  bool held_ MEMORYD_GUARDED_BY(mutex_) = false;
  int asked_ MEMORYD_GUARDED_BY(mutex_) = 0;
  std::chrono::steady_clock::time_point time_ MEMORYD_GUARDED_BY(mutex_);
  std::vector<std::string> ended_ MEMORYD_GUARDED_BY(mutex_);
};

TEST_F(EngineCountingTest, OrdinaryMessagesAreCountedByTheThreadThatBringsThem) {
  EngineTest::Start(Counting());
  Create(kSmall);
  std::string prose;
  while (prose.size() < 4096) prose += "They'd gone to the market, where 3 of them bought pears. ";
  std::string chinese;
  while (chinese.size() < 4000) chinese += "我们今天下午去公园散步，天气很好。";
  Hold();
  for (const std::string& text : {std::string("yes"), prose, chinese}) MustDo(Put(kSmall, text));
  // Also of a session that has to be loaded.
  EngineTest::Start(Counting());
  MustDo(Put(kSmall, prose));
  Release();
  EXPECT_EQ(Turns(), 0);
}

TEST_F(EngineCountingTest, WhatTakesLongIsNotCountedByTheThreadThatBringsIt) {
  EngineTest::Start(Counting());
  Create(kLarge);
  Hold();
  auto put = Start("put", Put(kLarge, std::string(16'000, 'a')));
  AwaitTurn();
  EXPECT_THAT(Ended(), IsEmpty());
  Release();
  EXPECT_TRUE(Await(std::move(put)).status.ok());
  EXPECT_EQ(TokensOf(kLarge), 2000 + 4);
}

TEST_F(EngineCountingTest, WhatTakesLongIsNotCountedByAReader) {
  EngineTest::Start(Counting());
  Create(kLarge);
  Create(kSmall);
  EngineTest::Start(Counting());
  Hold();
  auto put = Start("put", Put(kLarge, kLongWord));
  AwaitTurn();
  // There is one reader, and this session has to be loaded.
  MustDo(Put(kSmall, "a word"));
  EXPECT_THAT(Ended(), IsEmpty());
  Release();
  EXPECT_TRUE(Await(std::move(put)).status.ok());
  EXPECT_EQ(TokensOf(kLarge), kLongTokens);
}

TEST_F(EngineCountingTest, TenantsTakeTurnsTextByText) {
  EngineTest::Start(Counting());
  Create(kLarge);
  Create(kSmall);
  Hold();
  auto set = Start("set", Uncounted(commands::Set(), kLarge, {4, kLongWord}));
  auto more = Start("more", Put({"large", "other"}, kLongWord));
  AwaitTurn();
  auto put = Start("put", Put(kSmall, kLongWord));
  Release();
  for (auto* const future : {&set, &more, &put}) {
    EXPECT_TRUE(Await(std::move(*future)).status.ok());
  }
  EXPECT_THAT(Ended(), ElementsAre("put", "more", "set"));
  EXPECT_EQ(Turns(), 6);
}

TEST_F(EngineCountingTest, WhatNobodyWaitsForIsNotCounted) {
  EngineTest::Start(Counting());
  Create(kLarge);
  Hold();
  WriteRequest late = Uncounted(commands::Set(), kLarge, {4, kLongWord});
  late.deadline = In(std::chrono::milliseconds(1));
  auto set = Start("set", std::move(late));
  EXPECT_FALSE(Await(std::move(set)).status.ok());
  Release();
  MustDo(Put(kLarge, kLongWord));
  EXPECT_LE(Turns(), 2);
}

TEST_F(EngineCountingTest, ACommitterDoesNotCountWhatTakesLong) {
  EngineTest::Start(Counting());
  Create(kLarge);
  Hold();
  auto put = Start("put", Put(kLarge, kLongWord));
  AwaitTurn();
  // By the time it is counted the session has another tokenizer.
  MustDo(NewWrite(commands::DeleteSession(), kLarge));
  Create(kLarge, "o200k_base");
  Release();
  EXPECT_TRUE(Await(std::move(put)).status.ok());
  EXPECT_EQ(Turns(), 2);
  EXPECT_EQ(TokensOf(kLarge), kLongTokens);
}

TEST_F(EngineCountingTest, WhatCountingTakesIsTheTenants) {
  MemoryBudget budget(std::int64_t{8} << 20);
  EngineOptions options = Counting();
  options.memory = &budget;
  EngineTest::Start(options);
  Create(kLarge);
  const WriteOutcome refused = Do(Put(kLarge, std::string(1'000'000, 'a')));
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReason(refused.status), "MEMORY_SHORT");
  // What is made of words takes none.
  std::string words;
  while (words.size() < 1'000'000) words += "word ";
  MustDo(Put(kLarge, words));
  MustDo(Put(kLarge, kLongWord));
  engine_.reset();
  EXPECT_EQ(budget.holders(), 0);
}

}  // namespace
}  // namespace memoryd
