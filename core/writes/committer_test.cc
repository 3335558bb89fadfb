#include "core/writes/committer.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/calls/engine_stats.h"
#include "core/model/session.h"
#include "core/sessions/session_cache.h"
#include "core/storage/store.h"
#include "core/writes/draft/session_draft.h"
#include "core/writes/token_rules.h"
#include "core/writes/write.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

const SessionKey kKey{"tenant", "session"};

// Whose writes have no quota, are counted and have no request_id.
class Reloads : public UndecidedWrites {
 public:
  explicit Reloads(std::function<void(std::shared_ptr<Write>)> reload)
      : reload_(std::move(reload)) {}

  void Reload(std::shared_ptr<Write> write) override { reload_(std::move(write)); }
  void ReadUsage(std::shared_ptr<Write>) override { ADD_FAILURE(); }
  void Count(std::shared_ptr<Write>) override { ADD_FAILURE(); }
  void LookUp(std::shared_ptr<Write>, std::optional<SessionDraft::Decision>) override {
    ADD_FAILURE();
  }

 private:
  const std::function<void(std::shared_ptr<Write>)> reload_;
};

// A committer alone: sessions count as loaded, and a reload finds them as they are.
class CommitterTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    Committer::Options options;
    options.store = store_.get();
    options.cache = &cache_;
    options.token_rules = &rules_;
    options.stats = &stats_;
    options.shared = false;
    options.clock = &clock_;
    options.random = &random_numbers_;
    options.undecided = &reloads_;
    committer_ = std::make_unique<Committer>(std::move(options));
  }

  // Whatever became of the writes of a session, none is counted in the end.
  void TearDown() override {
    committer_.reset();
    for (const auto& session : sessions_) {
      MutexLock lock(session->mutex);
      EXPECT_EQ(session->writes, 0U) << session->key.session;
    }
  }

  std::shared_ptr<CachedSession> Loaded(const SessionKey& key) {
    std::shared_ptr<CachedSession> session = cache_.Acquire(key);
    sessions_.push_back(session);
    MutexLock lock(session->mutex);
    if (!session->loaded) session->session = Session::Absent();
    session->loaded = true;
    return session;
  }

  static void Enqueue(Committer& committer, std::shared_ptr<Write> write) {
    {
      MutexLock lock(write->session->mutex);
      ++write->session->writes;
    }
    committer.Enqueue(std::move(write));
  }
  std::future<WriteOutcome> Enqueue(WriteRequest request) {
    auto promise = std::make_shared<std::promise<WriteOutcome>>();
    std::shared_ptr<CachedSession> session = Loaded(request.key);
    Enqueue(*committer_, std::make_shared<Write>(std::move(request), std::move(session),
                                                 [promise](absl::StatusOr<WriteReply> reply) {
                                                   promise->set_value(OutcomeOf(std::move(reply)));
                                                 }));
    return promise->get_future();
  }

  TokenRules rules_{""};
  EngineStats stats_;
  MemoryBudget budget_{0};
  SessionCache cache_{std::size_t{1} << 20, &budget_};
  std::atomic<int> reloaded_{0};
  Reloads reloads_{[this](std::shared_ptr<Write> write) {
    ++reloaded_;
    write->fresh = true;
    Enqueue(*committer_, std::move(write));
  }};
  std::vector<std::shared_ptr<CachedSession>> sessions_;
  std::unique_ptr<Committer> committer_;
};

TEST_F(CommitterTest, AWriteWhoseDeadlineHasPassedDoesNotJoinABatch) {
  WriteRequest late = NewPut(kKey, {{"user", "late"}});
  late.deadline = std::chrono::steady_clock::now();
  const WriteOutcome outcome = Await(Enqueue(std::move(late)));
  EXPECT_TRUE(absl::IsDeadlineExceeded(outcome.status)) << outcome.status;
  EXPECT_THAT(store_->batches(), SizeIs(0));
}

TEST_F(CommitterTest, AWriteThatExpiredInTheQueueIsNotStored) {
  store_->StallCommits();
  auto first = Enqueue(NewPut({"tenant", "other"}, {{"user", "x"}}));
  store_->AwaitStalled(1);
  std::promise<absl::Status> said;
  auto write = std::make_shared<Write>(NewPut(kKey, {{"user", "expired"}}), Loaded(kKey),
                                       [&said](const absl::StatusOr<WriteReply>& reply) {
                                         said.set_value(Detached(reply.status()));
                                       });
  Enqueue(*committer_, write);
  write->Expire();
  EXPECT_EQ(ErrorReason(Await(said.get_future())), "STORE_UNAVAILABLE");
  auto last = Enqueue(NewPut(kKey, {{"user", "stored"}}));
  store_->ReleaseCommits();
  EXPECT_TRUE(Await(std::move(first)).status.ok());
  EXPECT_EQ(Await(std::move(last)).reply, "revision 1 positions 1 archived 0 removed 0+0");
}

TEST_F(CommitterTest, AWriteThatExpiresOnItsWayToTheStoreMayBeStored) {
  store_->StallCommits();
  std::promise<absl::Status> said;
  auto write = std::make_shared<Write>(NewPut(kKey, {{"user", "x"}}), Loaded(kKey),
                                       [&said](const absl::StatusOr<WriteReply>& reply) {
                                         said.set_value(Detached(reply.status()));
                                       });
  Enqueue(*committer_, write);
  store_->AwaitStalled(1);
  write->Expire();
  EXPECT_EQ(ErrorReason(Await(said.get_future())), "OUTCOME_UNKNOWN");
  store_->ReleaseCommits();
  // The late success changes no answer, but the session goes on from it.
  EXPECT_EQ(Await(Enqueue(NewPut(kKey, {{"user", "y"}}))).reply,
            "revision 2 positions 2 archived 0 removed 0+0");
}

TEST_F(CommitterTest, ASessionThatIsNotLoadedIsReadFirst) {
  const std::shared_ptr<CachedSession> session = cache_.Acquire(kKey);
  std::promise<std::shared_ptr<Write>> reloaded;
  Committer::Options options;
  options.store = store_.get();
  options.cache = &cache_;
  options.token_rules = &rules_;
  options.stats = &stats_;
  options.clock = &clock_;
  options.random = &random_numbers_;
  Reloads reloads([&](std::shared_ptr<Write> write) { reloaded.set_value(std::move(write)); });
  options.undecided = &reloads;
  Committer committer(std::move(options));
  auto write =
      std::make_shared<Write>(NewPut(kKey, {}), session, [](const absl::StatusOr<WriteReply>&) {});
  Enqueue(committer, write);
  EXPECT_EQ(Await(reloaded.get_future()), write);
  EXPECT_FALSE(write->finished());
}

TEST_F(CommitterTest, ASessionThatKeepsLosingIsWrittenAlone) {
  const SessionKey loser{"tenant", "loser"};
  for (int i = 0; i < 3; ++i) store_->AnswerNext(CommitOutcome::kRevisionLost);
  store_->AnswerNext(CommitOutcome::kFailed, absl::InternalError("to stop it after three losses"));
  EXPECT_FALSE(Await(Enqueue(NewPut(loser, {{"user", "x"}}))).status.ok());
  EXPECT_EQ(reloaded_, 3);

  store_->StallCommits();
  auto first = Enqueue(NewPut({"tenant", "other"}, {{"user", "x"}}));
  store_->AwaitStalled(1);
  std::vector<std::future<WriteOutcome>> waiting;
  waiting.push_back(Enqueue(NewPut(kKey, {{"user", "a"}})));
  waiting.push_back(Enqueue(NewPut(loser, {{"user", "b"}})));
  waiting.push_back(Enqueue(NewPut({"tenant", "third"}, {{"user", "c"}})));
  const std::size_t before = store_->batches().size();
  store_->ReleaseCommits();
  for (auto& call : waiting) EXPECT_TRUE(Await(std::move(call)).status.ok());

  const auto batches = store_->batches();
  ASSERT_EQ(batches.size(), before + 2);
  EXPECT_EQ(batches[before].changes, 2U);
  EXPECT_EQ(batches[before + 1].changes, 1U);
  EXPECT_TRUE(Await(std::move(first)).status.ok());
}

class LargeBatchTest : public CommitterTest {
 protected:
  // Commits these together, behind a batch that stalls, and says what was in each batch.
  std::vector<std::size_t> MessagesOfBatches(std::vector<WriteRequest> requests) {
    store_->StallCommits();
    auto first = Enqueue(NewPut({"tenant", "other"}, {{"user", "x"}}));
    store_->AwaitStalled(1);
    const std::size_t before = store_->batches().size();
    std::vector<std::future<WriteOutcome>> waiting;
    for (WriteRequest& request : requests) waiting.push_back(Enqueue(std::move(request)));
    store_->ReleaseCommits();
    EXPECT_TRUE(Await(std::move(first)).status.ok());
    for (auto& call : waiting) EXPECT_TRUE(Await(std::move(call)).status.ok());
    std::vector<std::size_t> messages;
    const auto batches = store_->batches();
    for (std::size_t i = before; i < batches.size(); ++i) messages.push_back(batches[i].messages);
    return messages;
  }

  static WriteRequest Large(SessionKey key, std::size_t messages) {
    return NewPut(std::move(key), std::vector<Line>(messages, {"user", "x"}));
  }
};

TEST_F(LargeBatchTest, WritesOfOneSessionAreAtMostAThousandMessages) {
  std::vector<WriteRequest> requests;
  for (int i = 0; i < 3; ++i) requests.push_back(Large(kKey, 600));
  EXPECT_THAT(MessagesOfBatches(std::move(requests)), ElementsAre(600, 600, 600));
}

TEST_F(LargeBatchTest, SoAreThoseOfSeveral) {
  std::vector<WriteRequest> requests;
  for (const char* const session : {"a", "b", "c", "d"}) {
    requests.push_back(Large({"tenant", session}, 400));
  }
  EXPECT_THAT(MessagesOfBatches(std::move(requests)), ElementsAre(800, 800));
}

TEST_F(LargeBatchTest, OneThatIsLargerGoesAloneAndBehindThoseOfAnotherTenant) {
  std::vector<WriteRequest> requests;
  requests.push_back(Large({"large", "a"}, 2000));
  requests.push_back(Large({"large", "b"}, 2000));
  requests.push_back(NewPut({"small", "a"}, {{"user", "x"}}));
  EXPECT_THAT(MessagesOfBatches(std::move(requests)), ElementsAre(2000, 1, 2000));
}

TEST_F(LargeBatchTest, TenantsShareThemByMessagesToo) {
  std::vector<WriteRequest> requests;
  for (const char* const session : {"a", "b", "c", "d"}) {
    requests.push_back(Large({"large", session}, 500));
  }
  for (int i = 0; i < 40; ++i) {
    requests.push_back(NewPut({"small", std::to_string(i)}, {{"user", "x"}}));
  }
  EXPECT_THAT(MessagesOfBatches(std::move(requests)), ElementsAre(540, 1000, 500));
}

TEST_F(LargeBatchTest, BytesCountToo) {
  std::vector<WriteRequest> requests;
  for (const char* const session : {"a", "b", "c"}) {
    requests.push_back(Large({"tenant", session}, 1));
    requests.back().byte_size = std::size_t{500} << 10;
  }
  EXPECT_THAT(MessagesOfBatches(std::move(requests)), ElementsAre(2, 1));
}

TEST_F(CommitterTest, AnExceptionEndsTheWritesOfItsSessionAlone) {
  store_->StallCommits();
  auto first = Enqueue(NewPut({"tenant", "other"}, {{"user", "x"}}));
  store_->AwaitStalled(1);
  WriteRequest throwing = NewPut(kKey, {{"user", "thrown"}});
  throwing.encode_reply = [](const WriteResult&) -> std::string { throw std::bad_alloc(); };
  auto thrown = Enqueue(std::move(throwing));
  auto beside = Enqueue(NewPut(kKey, {{"user", "of the same session"}}));
  auto third = Enqueue(NewPut({"tenant", "third"}, {{"user", "y"}}));
  store_->ReleaseCommits();
  EXPECT_TRUE(absl::IsInternal(Await(std::move(thrown)).status));
  EXPECT_TRUE(absl::IsInternal(Await(std::move(beside)).status));
  EXPECT_TRUE(Await(std::move(first)).status.ok());
  EXPECT_TRUE(Await(std::move(third)).status.ok());
  EXPECT_EQ(stats_.exceptions, 1U);
  // Nothing of it was stored.
  EXPECT_EQ(Await(Enqueue(NewPut(kKey, {{"user", "later"}}))).reply,
            "revision 1 positions 1 archived 0 removed 0+0");
}

TEST_F(CommitterTest, DestructionCommitsWhatIsQueued) {
  store_->StallCommits();
  auto first = Enqueue(NewPut({"tenant", "other"}, {{"user", "x"}}));
  store_->AwaitStalled(1);
  auto second = Enqueue(NewPut(kKey, {{"user", "y"}}));
  store_->ReleaseCommits();
  committer_.reset();
  EXPECT_TRUE(Await(std::move(first)).status.ok());
  EXPECT_TRUE(Await(std::move(second)).status.ok());
}

}  // namespace
}  // namespace memoryd
