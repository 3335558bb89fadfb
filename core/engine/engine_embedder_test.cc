// Nobody waits for an embedder that takes its time.
#include <gmock/gmock.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/engine/engine.h"
#include "core/llm/model.h"
#include "core/model/job.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/recall/recall.h"
#include "core/recall/session_search.h"
#include "core/storage/stores.h"
#include "core/writes/write.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/fake_models.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;

// Takes calls and lets the test answer them.
class HeldEmbedder final : public Embedder {
 public:
  struct Call {
    std::string session;
    EmbedPurpose purpose = EmbedPurpose::kText;
    std::vector<std::string> texts;
    ModelDeadline deadline;
    Done done;
  };

  void Embed(const ModelCaller& caller, EmbedPurpose purpose, std::vector<std::string> texts,
             ModelDeadline deadline, Done done) override {
    MutexLock lock(mutex_);
    calls_.push_back({caller.session, purpose, std::move(texts), deadline, std::move(done)});
    called_.NotifyAll();
  }

  // The oldest call, once there is one.
  Call Take() {
    MutexLock lock(mutex_);
    while (calls_.empty()) called_.Wait(mutex_);
    Call call = std::move(calls_.front());
    calls_.pop_front();
    return call;
  }
  static void Answer(const Call& call) {
    EmbedReply reply;
    for (const std::string& text : call.texts) reply.vectors.push_back(HashEmbedding(text));
    call.done(std::move(reply));
  }
  std::size_t waiting() {
    MutexLock lock(mutex_);
    return calls_.size();
  }

 private:
  Mutex mutex_;
  CondVar called_;
  std::deque<Call> calls_ MEMORYD_GUARDED_BY(mutex_);
};

// `held` lets the test answer, any other embedder answers at once.
class TwoEmbedders final : public ModelDirectory {
 public:
  absl::StatusOr<std::shared_ptr<ChatModel>> FindChatModel(std::string_view /*tenant*/,
                                                           std::string_view /*worker*/,
                                                           std::string_view /*model*/) override {
    return absl::NotFoundError("there is none");
  }
  absl::StatusOr<std::shared_ptr<Embedder>> FindEmbedder(std::string_view /*tenant*/,
                                                         std::string_view /*worker*/,
                                                         std::string_view name) override {
    if (name == "held") return held;
    return std::make_shared<HashEmbedder>();
  }
  std::shared_ptr<HeldEmbedder> held = std::make_shared<HeldEmbedder>();
};

class EngineEmbedderTest : public EngineTest, public testing::WithParamInterface<Coherence> {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    EngineOptions options = Options(GetParam());
    options.models = &models_;
    options.jobs.limits.max_running = 8;
    options.jobs.limits.max_running_of_tenant = 2;
    Start(std::move(options));
  }
  void TearDown() override { engine_.reset(); }

  static SessionKey Key(const std::string& session) { return {"tenant", session}; }
  void Create(const std::string& session, SessionSettings settings) {
    WriteRequest create = NewWrite(commands::CreateSession(), Key(session));
    SettingsOf(create) = std::move(settings);
    MustDo(std::move(create));
  }
  static SessionSettings WithEmbedder() {
    SessionSettings settings = WordSettings();
    settings.ranking.embedder = "held";
    return settings;
  }
  void Put(const std::string& session, std::vector<Line> lines) {
    MustDo(NewWrite(commands::Put(), Key(session), std::move(lines)));
  }
  std::future<absl::StatusOr<Found>> StartQuery(const std::string& session, std::string query,
                                                Engine::Deadline deadline) {
    QueryRequest request;
    request.key = Key(session);
    request.query = std::move(query);
    auto promise = std::make_shared<std::promise<absl::StatusOr<Found>>>();
    engine_->Query(std::move(request), deadline, [promise](absl::StatusOr<Found> found) {
      promise->set_value(Detached(std::move(found)));
    });
    return promise->get_future();
  }

  TwoEmbedders models_;
};

TEST_P(EngineEmbedderTest, AnEmbedderThatHangsLeavesRoomForBlocks) {
  for (const char* session : {"a", "b", "c"}) {
    Create(session, WithEmbedder());
    Put(session, {{"user", "dog"}});
  }
  const HeldEmbedder::Call first = models_.held->Take();
  // The other place is for blocks.
  SessionSettings blocks = WordSettings();
  blocks.token_limit = 1000;
  blocks.token_flush_size = 1;
  blocks.chat_history_token_ratio = 0;
  BlockSettings vectors;
  vectors.name = "vectors";
  vectors.kind = "vector";
  vectors.options_json = R"({"embedder":"fast"})";
  blocks.blocks = {vectors};
  Create("blocks", blocks);
  for (int turn = 0; turn < 3; ++turn) {
    WriteRequest put = NewWrite(commands::Put(), Key("blocks"), {{"user", "cat"}});
    put.wait_until = Far();
    put.with_open_jobs = [](std::string reply, const std::vector<OpenJob>& open, const Usage&) {
      return open.empty() ? reply : "open";
    };
    const WriteOutcome outcome = Do(std::move(put));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_NE(outcome.reply, "open");
  }
  EXPECT_EQ(models_.held->waiting(), 0U);
  std::vector<std::string> asked = {first.session};
  HeldEmbedder::Answer(first);
  for (int others = 0; others < 2; ++others) {
    const HeldEmbedder::Call next = models_.held->Take();
    asked.push_back(next.session);
    HeldEmbedder::Answer(next);
  }
  EXPECT_THAT(asked, testing::UnorderedElementsAre("a", "b", "c"));
}

TEST_P(EngineEmbedderTest, AQueryGivesAnEmbedderHalfOfItsTime) {
  Create("other", WordSettings());
  Put("other", {{"user", "dog"}});
  Create("a", WithEmbedder());
  Put("a", {{"user", "dog"}});
  // Nothing to compare with yet: nobody is asked.
  const auto before = Await(StartQuery("a", "dog", Far()));
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(before->pending_embeddings, 1);
  EXPECT_EQ(before->embedder_failure, "");
  HeldEmbedder::Answer(models_.held->Take());
  // Without a word in it a query asks nobody.
  while (Await(StartQuery("a", "?", Far()))->pending_embeddings > 0) std::this_thread::yield();

  using std::chrono::milliseconds;
  for (const auto& [time, most] : {std::pair(milliseconds(60'000), milliseconds(2000)),
                                   std::pair(milliseconds(2000), milliseconds(1000))}) {
    const auto begin = std::chrono::steady_clock::now();
    std::future<absl::StatusOr<Found>> query = StartQuery("a", "cat", begin + time);
    const HeldEmbedder::Call call = models_.held->Take();
    EXPECT_EQ(call.purpose, EmbedPurpose::kQuery);
    EXPECT_THAT(call.texts, ElementsAre("cat"));
    EXPECT_LE(call.deadline, std::chrono::steady_clock::now() + most);
    EXPECT_LE(call.deadline, begin + time);
    // Others are not held up meanwhile.
    Put("other", {{"user", "dog"}});
    EXPECT_FALSE(Await(StartQuery("other", "dog", Far()))->items.empty());
    call.done(absl::DeadlineExceededError("too late"));
    const auto found = Await(std::move(query));
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->embedder_failure, "TIMEOUT");
  }
}

INSTANTIATE_TEST_SUITE_P(Coherences, EngineEmbedderTest,
                         testing::Values(Coherence::kExclusive, Coherence::kShared));

}  // namespace
}  // namespace memoryd
