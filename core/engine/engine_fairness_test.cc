// What one tenant asks for does not hold up another. All by order: there is one reader, or one
// committer, and the store waits until the test lets it go on.
#include <gmock/gmock.h>

#include <algorithm>
#include <thread>

#include "core/base/error.h"
#include "core/engine/engine.h"
#include "tests/support/engine_fixture.h"

namespace memoryd {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

const SessionKey kLarge{"large", "session"};
const SessionKey kSmall{"small", "session"};

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

  void StartPage(const std::string& name) {
    PageRequest request;
    request.key = kLarge;
    engine_->ReadPage(std::move(request), Far(),
                      [this, name](absl::StatusOr<Page> page) { Note(name, page.status()); });
  }
  void StartSmallGet() {
    engine_->Get(kSmall, std::nullopt, Far(),
                 [this](absl::StatusOr<Context> context) { Note("get", context.status()); });
  }
  void StartPut(const std::string& name, const SessionKey& key, std::size_t bytes) {
    WriteRequest put = NewPut(key, {{"user", std::string(bytes, 'x')}});
    put.byte_size = bytes;
    engine_->Submit(std::move(put), [this, name](const absl::Status& status, const std::string&,
                                                 bool) { Note(name, status); });
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

TEST_F(EngineFairnessTest, ALargeGetIsComposedByAReader) {
  const auto composer = [this](const SessionKey& key) {
    auto promise = std::make_shared<std::promise<std::thread::id>>();
    auto future = promise->get_future();
    engine_->Get(key, std::nullopt, Far(), [promise](const absl::StatusOr<Context>&) {
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
  store_->StallCommits();
  StartPut("held", {"large", "0"}, 10);
  store_->AwaitStalled(1);
  constexpr std::size_t kPutBytes = 3 << 20;
  for (const char* const name : {"1", "2", "3", "4", "5", "6"}) {
    StartPut(name, {"large", name}, kPutBytes);
  }
  StartPut("small", kSmall, 10);
  // Sessions that were not in memory are read first, so all of them wait once that is over.
  EXPECT_TRUE(Get(*engine_, kSmall).ok());
  store_->ReleaseCommits();
  const std::vector<std::string> ended = Ended();
  const auto small = std::find(ended.begin(), ended.end(), "small");
  EXPECT_LE(small - ended.begin(), 2) << "of the first batch after the one that was held";
  EXPECT_THAT(Codes(), Each(absl::StatusCode::kOk));
}

}  // namespace
}  // namespace memoryd
