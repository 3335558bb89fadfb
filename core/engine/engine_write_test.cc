#include <gmock/gmock.h>

#include <chrono>
#include <cstddef>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/engine/engine.h"
#include "core/model/session.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"
#include "core/writes/write.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

const SessionKey kKey{"tenant", "session"};

class EngineWriteTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    Start(Options());
  }

  static void ExpectError(const WriteOutcome& outcome, absl::StatusCode code,
                          const std::string& reason) {
    EXPECT_EQ(outcome.status.code(), code) << outcome.status;
    EXPECT_EQ(ErrorReason(outcome.status), reason);
  }

  static WriteRequest Due(WriteRequest request, Engine::Deadline deadline) {
    request.deadline = deadline;
    return request;
  }

  // Late enough for a call to have begun, however slow the machine is, and soon over.
  static Engine::Deadline Soon() { return In(std::chrono::milliseconds(500)); }

  // A Put that is on its way to the stalled store: what comes now meets in the next batch.
  std::future<WriteOutcome> OccupyCommitter() {
    store_->StallCommits();
    std::future<WriteOutcome> first = Submit(NewPut({"tenant", "other"}, {{"user", "first"}}));
    store_->AwaitStalled(1);
    return first;
  }
};

TEST_F(EngineWriteTest, AGetSeesWhatWasPut) {
  const WriteOutcome put = Do(NewPut(kKey, {{"user", "hello"}, {"assistant", "hi"}}));
  EXPECT_EQ(put.reply, "revision 1 positions 1,2 archived 0 removed 0+0");
  EXPECT_FALSE(put.replayed);

  const auto context = Get(*engine_, kKey);
  ASSERT_TRUE(context.ok()) << context.status();
  EXPECT_THAT(Bodies(context->messages), ElementsAre("hello", "hi"));
  EXPECT_EQ(context->token_count, 10);
  EXPECT_EQ(context->limit, 30000);
  EXPECT_EQ(context->revision, 1);
}

TEST_F(EngineWriteTest, ConcurrentPutsAreAllStoredOnceAndInEachCallersOrder) {
  constexpr int kThreads = 8;
  constexpr int kPuts = 40;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kThreads; ++caller) {
    callers.emplace_back([this, caller] {
      for (int i = 0; i < kPuts; ++i) {
        MustDo(NewPut(kKey, {{"user", std::to_string(caller * kPuts + i)}}));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();

  const std::vector<std::string> bodies = AllBodies(kKey);
  EXPECT_THAT(bodies, SizeIs(kThreads * kPuts));
  EXPECT_THAT(std::set<std::string>(bodies.begin(), bodies.end()), SizeIs(kThreads * kPuts));
  std::vector<int> last(kThreads, -1);
  for (const std::string& body : bodies) {
    const int number = std::stoi(body);
    int& before = last[static_cast<std::size_t>(number / kPuts)];
    EXPECT_GT(number, before);
    before = number;
  }
  EXPECT_EQ(Get(*engine_, kKey)->revision, kThreads * kPuts);
}

TEST_F(EngineWriteTest, WhatWaitsGoesIntoOneCommitAcrossSessions) {
  const SessionKey second{"tenant", "second"};
  MustDo(NewPut(kKey, {{"user", "0"}}));
  MustDo(NewPut(second, {{"user", "0"}}));
  auto first = OccupyCommitter();
  std::vector<std::future<WriteOutcome>> waiting;
  for (int i = 1; i <= 5; ++i) waiting.push_back(Submit(NewPut(kKey, {{"user", "a"}})));
  waiting.push_back(Submit(NewPut(second, {{"user", "b"}})));
  const std::size_t before = store_->batches().size();
  store_->ReleaseCommits();

  for (auto& call : waiting) EXPECT_TRUE(Await(std::move(call)).status.ok());
  EXPECT_TRUE(Await(std::move(first)).status.ok());
  const auto batches = store_->batches();
  ASSERT_EQ(batches.size(), before + 1);
  EXPECT_EQ(batches.back().changes, 2U);
  EXPECT_EQ(batches.back().messages, 6U);
}

TEST_F(EngineWriteTest, OtherWritesThanPutsKeepTheirPlaceInASessionsOrder) {
  MustDo(NewPut(kKey, {{"user", "0"}}));
  auto first = OccupyCommitter();
  auto put = Submit(NewPut(kKey, {{"user", "1"}}));
  auto set = Submit(NewWrite(commands::Set(), kKey, {{"user", "2"}}));
  auto last = Submit(NewPut(kKey, {{"user", "3"}}));
  store_->ReleaseCommits();

  EXPECT_EQ(Await(std::move(put)).reply, "revision 2 positions 2 archived 0 removed 0+0");
  EXPECT_EQ(Await(std::move(set)).reply, "revision 3 positions 3 archived 0 removed 2+0");
  EXPECT_EQ(Await(std::move(last)).reply, "revision 4 positions 4 archived 0 removed 0+0");
  EXPECT_THAT(Bodies(kKey), ElementsAre("2", "3"));
}

TEST_F(EngineWriteTest, AStoredMessageIdHurtsOnlyItsOwnPut) {
  MustDo(NewPut(kKey, {{"user", "0", "x"}}));
  auto first = OccupyCommitter();
  auto good = Submit(NewPut(kKey, {{"user", "1"}}));
  auto bad = Submit(NewPut(kKey, {{"user", "2", "y"}, {"user", "3", "x"}}));
  auto also_good = Submit(NewPut(kKey, {{"user", "4", "z"}}));
  store_->ReleaseCommits();

  EXPECT_TRUE(Await(std::move(good)).status.ok());
  EXPECT_TRUE(Await(std::move(also_good)).status.ok());
  ExpectError(Await(std::move(bad)), absl::StatusCode::kAlreadyExists, "MESSAGE_ID_EXISTS");
  EXPECT_THAT(AllBodies(kKey), ::testing::UnorderedElementsAre("0", "1", "4"));
  // The id is free again where the generation is another one.
  MustDo(NewWrite(commands::Reset(), kKey));
  MustDo(NewPut(kKey, {{"user", "5", "x"}}));
}

TEST_F(EngineWriteTest, OfTwoPutsInABatchWithOneMessageIdOneIsStored) {
  MustDo(NewPut(kKey, {{"user", "0"}}));
  auto first = OccupyCommitter();
  auto one = Submit(NewPut(kKey, {{"user", "1", "x"}}));
  auto other = Submit(NewPut(kKey, {{"user", "2", "x"}}));
  store_->ReleaseCommits();
  const absl::Status a = Await(std::move(one)).status;
  const absl::Status b = Await(std::move(other)).status;
  EXPECT_NE(a.ok(), b.ok()) << a << b;
  EXPECT_THAT(AllBodies(kKey), SizeIs(2));
}

TEST_F(EngineWriteTest, ARequestIsReplayedThoughTheSessionHasLeftTheCache) {
  EngineOptions options = Options();
  options.cache_bytes = 0;
  Start(options);
  const WriteOutcome put = Do(WithRequestId(NewPut(kKey, {{"user", "once"}}), "r"));
  ASSERT_TRUE(put.status.ok()) << put.status;
  for (int i = 0; i < 40; ++i) {
    MustDo(NewPut({"tenant", std::to_string(i)}, {{"user", "x"}}));
  }

  const WriteOutcome again = Do(WithRequestId(NewPut(kKey, {{"user", "once"}}), "r"));
  EXPECT_TRUE(again.replayed);
  EXPECT_EQ(again.reply, put.reply);
  ExpectError(Do(WithRequestId(NewPut(kKey, {{"user", "twice"}}), "r", 'g')),
              absl::StatusCode::kAlreadyExists, "REQUEST_ID_REUSED");
  EXPECT_THAT(AllBodies(kKey), ElementsAre("once"));
}

TEST_F(EngineWriteTest, ARepeatedRequestIsReplayedEvenWhereANewOneWouldBeRefused) {
  EngineOptions options = Options();
  for (const std::size_t cache_bytes : {options.cache_bytes, std::size_t{0}}) {
    options.cache_bytes = cache_bytes;
    Start(options);
    const SessionKey key{"tenant", std::to_string(cache_bytes)};
    const WriteRequest request =
        WithRevision(WithRequestId(NewPut(key, {{"user", "once", "id"}}), "r"), 0);
    ASSERT_TRUE(Do(request).status.ok());
    const WriteOutcome again = Do(request);
    EXPECT_TRUE(again.status.ok()) << again.status;
    EXPECT_TRUE(again.replayed);
  }
}

TEST_F(EngineWriteTest, OneRequestSentTwiceAtOnceIsStoredOnce) {
  MustDo(NewPut(kKey, {{"user", "0"}}));
  auto first = OccupyCommitter();
  auto one = Submit(WithRequestId(NewPut(kKey, {{"user", "once"}}), "r"));
  auto other = Submit(WithRequestId(NewPut(kKey, {{"user", "once"}}), "r"));
  store_->ReleaseCommits();
  const WriteOutcome a = Await(std::move(one));
  const WriteOutcome b = Await(std::move(other));
  EXPECT_TRUE(a.status.ok() && b.status.ok()) << a.status << b.status;
  EXPECT_EQ(a.reply, b.reply);
  EXPECT_NE(a.replayed, b.replayed);
  EXPECT_THAT(AllBodies(kKey), ElementsAre("0", "once"));
}

TEST_F(EngineWriteTest, ALostRevisionIsRetriedUntilStored) {
  MustDo(NewPut(kKey, {{"user", "0"}}));
  for (int i = 0; i < 5; ++i) store_->AnswerNext(CommitOutcome::kRevisionLost);
  MustDo(WithRequestId(NewPut(kKey, {{"user", "1"}}), "r"));
  EXPECT_THAT(AllBodies(kKey), ElementsAre("0", "1"));
}

TEST_F(EngineWriteTest, AnUnknownOutcomeIsSaidAndTheNextReadLooksAnew) {
  MustDo(NewPut(kKey, {{"user", "0"}}));
  store_->AnswerNext(CommitOutcome::kUnknown, absl::UnavailableError("lost"), /*stored=*/true);
  ExpectError(Do(NewPut(kKey, {{"user", "1"}})), absl::StatusCode::kUnavailable, "OUTCOME_UNKNOWN");
  EXPECT_THAT(Bodies(kKey), ElementsAre("0", "1"));

  store_->AnswerNext(CommitOutcome::kUnknown, absl::UnavailableError("lost"), /*stored=*/false);
  ExpectError(Do(NewPut(kKey, {{"user", "2"}})), absl::StatusCode::kUnavailable, "OUTCOME_UNKNOWN");
  EXPECT_THAT(Bodies(kKey), ElementsAre("0", "1"));
  MustDo(NewPut(kKey, {{"user", "3"}}));
  EXPECT_THAT(Bodies(kKey), ElementsAre("0", "1", "3"));
}

TEST_F(EngineWriteTest, ARequestOfUnknownOutcomeIsSettledByItsRepetition) {
  const WriteRequest request = WithRequestId(NewPut(kKey, {{"user", "once"}}), "r");
  for (const bool stored : {false, true}) {
    store_->AnswerNext(CommitOutcome::kUnknown, absl::UnavailableError("lost"), stored);
    ExpectError(Do(request), absl::StatusCode::kUnavailable, "OUTCOME_UNKNOWN");
  }
  const WriteOutcome again = Do(request);
  EXPECT_TRUE(again.status.ok()) << again.status;
  EXPECT_TRUE(again.replayed);
  EXPECT_THAT(AllBodies(kKey), ElementsAre("once"));
}

TEST_F(EngineWriteTest, ALoadThatBeganBeforeAnUnknownOutcomeDoesNotCount) {
  EngineOptions options = Options();
  options.coherence = Coherence::kShared;
  Start(options);
  MustDo(NewPut(kKey, {{"user", "0"}}));
  // With several servers a refusal is final only after a load: that is the one under way.
  store_->StallLoads();
  auto refused = Submit(WithRequestId(WithRevision(NewPut(kKey, {}), 9), "r"));
  store_->AwaitStalled(1);
  store_->AnswerNext(CommitOutcome::kUnknown, absl::UnavailableError("lost"), /*stored=*/true);
  ExpectError(Do(NewPut(kKey, {{"user", "1"}})), absl::StatusCode::kUnavailable, "OUTCOME_UNKNOWN");
  store_->ReleaseLoads();

  ExpectError(Await(std::move(refused)), absl::StatusCode::kAborted, "REVISION_MISMATCH");
  EXPECT_THAT(Bodies(kKey), ElementsAre("0", "1"));
}

TEST_F(EngineWriteTest, AFailedCommitIsReportedAndStoresNothing) {
  MustDo(NewPut(kKey, {{"user", "0"}}));
  store_->AnswerNext(CommitOutcome::kFailed, absl::UnavailableError("host db1 is down"));
  const WriteOutcome away = Do(NewPut(kKey, {{"user", "1"}}));
  ExpectError(away, absl::StatusCode::kUnavailable, "STORE_UNAVAILABLE");
  EXPECT_EQ(std::string(away.status.message()).find("db1"), std::string::npos);
  store_->AnswerNext(CommitOutcome::kFailed, absl::ResourceExhaustedError("disk full"));
  EXPECT_TRUE(absl::IsResourceExhausted(Do(NewPut(kKey, {{"user", "2"}})).status));
  EXPECT_THAT(Bodies(kKey), ElementsAre("0"));
  MustDo(NewPut(kKey, {{"user", "3"}}));
}

TEST_F(EngineWriteTest, AStoreThatCannotBeReadRefusesPutsToColdSessions) {
  store_->FailReads(absl::UnavailableError("the store is busy"));
  ExpectError(Do(NewPut(kKey, {{"user", "0"}})), absl::StatusCode::kUnavailable,
              "STORE_UNAVAILABLE");
  store_->FailReads(absl::OkStatus());
  MustDo(NewPut(kKey, {{"user", "1"}}));
  EXPECT_THAT(AllBodies(kKey), ElementsAre("1"));
}

TEST_F(EngineWriteTest, MoreCallsThanMayWaitAreRefusedAndStoreNothing) {
  EngineOptions options = Options();
  options.max_pending_calls = 3;
  Start(options);
  MustDo(NewPut(kKey, {{"user", "0"}}));
  // What was answered leaves a moment later.
  EXPECT_TRUE(engine_->Drain(Far()));
  auto first = OccupyCommitter();
  auto second = Submit(NewPut(kKey, {{"user", "1"}}));
  auto third = Submit(NewPut(kKey, {{"user", "2"}}));
  ExpectError(Do(NewPut(kKey, {{"user", "refused"}})), absl::StatusCode::kResourceExhausted,
              "QUEUE_FULL");
  // What needs no store is served all the same.
  EXPECT_THAT(Bodies(kKey), ElementsAre("0"));
  store_->ReleaseCommits();

  EXPECT_TRUE(Await(std::move(first)).status.ok());
  EXPECT_TRUE(Await(std::move(second)).status.ok());
  EXPECT_TRUE(Await(std::move(third)).status.ok());
  EXPECT_TRUE(engine_->Drain(Far()));
  MustDo(NewPut(kKey, {{"user", "3"}}));
  EXPECT_THAT(AllBodies(kKey), ElementsAre("0", "1", "2", "3"));
}

TEST_F(EngineWriteTest, MoreBytesThanMayWaitAreRefused) {
  EngineOptions options = Options();
  options.max_pending_bytes = 100;
  Start(options);
  ExpectError(Do(NewPut(kKey, {{"user", std::string(101, 'x')}})),
              absl::StatusCode::kResourceExhausted, "QUEUE_FULL");
  MustDo(NewPut(kKey, {{"user", std::string(100, 'x')}}));
}

TEST_F(EngineWriteTest, WhatAStalledStoreHoldsEndsAtItsDeadline) {
  MustDo(NewPut(kKey, {{"user", "0"}}));
  store_->StallCommits();
  auto on_its_way = Submit(Due(NewPut(kKey, {{"user", "1"}}), In(std::chrono::seconds(1))));
  store_->AwaitStalled(1);
  auto queued = Submit(Due(NewPut(kKey, {{"user", "2"}}), In(std::chrono::milliseconds(300))));

  // Both end though the store still holds the commit.
  ExpectError(Await(std::move(queued)), absl::StatusCode::kUnavailable, "STORE_UNAVAILABLE");
  ExpectError(Await(std::move(on_its_way)), absl::StatusCode::kUnavailable, "OUTCOME_UNKNOWN");
  EXPECT_FALSE(engine_->Drain(Engine::Deadline())) << "the store has not let go of them";
  store_->ReleaseCommits();
  EXPECT_TRUE(engine_->Drain(Far()));
  EXPECT_THAT(AllBodies(kKey), ElementsAre("0", "1")) << "what was still queued is not stored";
}

TEST_F(EngineWriteTest, CallsThatExpiredStillTakeTheirPlaceInTheBoundedQueue) {
  EngineOptions options = Options();
  options.max_pending_calls = 2;
  Start(options);
  MustDo(NewPut(kKey, {{"user", "0"}}));
  store_->StallCommits();
  auto on_its_way = Submit(NewPut(kKey, {{"user", "1"}}));
  store_->AwaitStalled(1);
  EXPECT_FALSE(Do(Due(NewPut(kKey, {{"user", "2"}}), Soon())).status.ok());
  ExpectError(Do(NewPut(kKey, {{"user", "3"}})), absl::StatusCode::kResourceExhausted,
              "QUEUE_FULL");
  store_->ReleaseCommits();
  EXPECT_TRUE(Await(std::move(on_its_way)).status.ok());
  EXPECT_TRUE(engine_->Drain(Far()));
  MustDo(NewPut(kKey, {{"user", "4"}}));
}

TEST_F(EngineWriteTest, AnEngineMayGoWhileLoadsOfExpiredCallsAreUnderWay) {
  store_->StallLoads();
  auto put = Submit(Due(NewPut(kKey, {{"user", "0"}}), Soon()));
  store_->AwaitStalled(1);
  EXPECT_FALSE(Await(std::move(put)).status.ok());
  std::thread stop([this] { engine_.reset(); });
  store_->ReleaseLoads();
  stop.join();
}

TEST_F(EngineWriteTest, DestructionFinishesWhatWasAdmitted) {
  MustDo(NewPut(kKey, {{"user", "0"}}));
  auto first = OccupyCommitter();
  auto put = Submit(NewPut(kKey, {{"user", "1"}}));
  std::thread stop([this] { engine_.reset(); });
  store_->ReleaseCommits();
  stop.join();
  EXPECT_TRUE(Await(std::move(first)).status.ok());
  EXPECT_TRUE(Await(std::move(put)).status.ok());
  Start(Options());
  EXPECT_THAT(AllBodies(kKey), ElementsAre("0", "1"));
}

TEST_F(EngineWriteTest, DrainWaitsForWhatIsPending) {
  EXPECT_TRUE(engine_->Drain(Engine::Deadline())) << "nothing is pending";
  auto first = OccupyCommitter();
  EXPECT_FALSE(engine_->Drain(Engine::Deadline()));
  std::promise<bool> drained;
  std::thread waiter([&] { drained.set_value(engine_->Drain(Engine::Deadline::max())); });
  store_->ReleaseCommits();
  EXPECT_TRUE(Await(drained.get_future()));
  waiter.join();
}

}  // namespace
}  // namespace memoryd
