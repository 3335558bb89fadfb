#include "server/rpc/watch_service.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/model/session.h"
#include "memoryd/v1/session_service.pb.h"
#include "server/access/tenant_limiter.h"
#include "server/ops/call_log.h"
#include "server/ops/call_stats.h"
#include "server/ops/calls_in_flight.h"
#include "server/ops/log.h"
#include "server/rpc/unary_call.h"
#include "server/wire/rpc_call.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/writes.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const SessionKey kKey{"default", "s"};

// A reader who takes a reply when he is told to.
class WatchCall final : public RpcCall {
 public:
  explicit WatchCall(MemoryBudget* memory) : memory_(*memory) {}

  const CallMetadata& metadata() const override { return metadata_; }
  const std::vector<std::string>& certificate_names() const override { return names_; }
  TimePoint deadline() const override { return TimePoint::max(); }
  bool IsCancelled() const override { return false; }
  void SetHandler(std::shared_ptr<RpcHandler> handler) override { handler_ = std::move(handler); }
  absl::Status ChargeTo(std::string_view /*tenant*/) override { return absl::OkStatus(); }
  void Read() override { reads_ = true; }
  absl::StatusOr<MemoryBudget::Hold> Take(MemoryUse use, std::int64_t bytes) override {
    return memory_.Take(kKey.tenant, use, bytes);
  }
  void Send(std::string message, MemoryBudget::Hold /*hold*/) override {
    v1::WatchSessionResponse news;
    EXPECT_TRUE(news.ParseFromString(message));
    MutexLock lock(mutex_);
    news_.push_back(std::move(news));
    changed_.NotifyAll();
  }
  void SendLast(std::string message, MemoryBudget::Hold hold) override {
    Send(std::move(message), std::move(hold));
  }
  void Finish(const absl::Status& status, std::string_view /*request_id*/) override {
    MutexLock lock(mutex_);
    end_ = status;
    changed_.NotifyAll();
  }
  void Cancel() override {}

  // What the server has to ask for before it comes.
  void Request(const v1::WatchSessionRequest& request) {
    ASSERT_TRUE(reads_);
    handler_->OnMessage(request.SerializeAsString());
  }
  // Waits for the next reply, and leaves it untaken.
  v1::WatchSessionResponse Await() {
    MutexLock lock(mutex_);
    while (news_.empty() && !end_.has_value()) changed_.Wait(mutex_);
    if (news_.empty()) {
      ADD_FAILURE() << "ended: " << *end_;
      return {};
    }
    v1::WatchSessionResponse news = std::move(news_.front());
    news_.pop_front();
    return news;
  }
  // The last reply is read.
  void Taken() { handler_->OnSent(); }
  absl::Status End() {
    MutexLock lock(mutex_);
    while (!end_.has_value()) changed_.Wait(mutex_);
    return *end_;
  }
  std::size_t untaken() {
    MutexLock lock(mutex_);
    return news_.size();
  }
  // The call is over.
  void Go() {
    const std::shared_ptr<RpcHandler> handler = std::exchange(handler_, nullptr);
    if (handler != nullptr) handler->OnDone();
  }

 private:
  MemoryBudget& memory_;
  const CallMetadata metadata_{};
  const std::vector<std::string> names_{};
  std::shared_ptr<RpcHandler> handler_;
  bool reads_ = false;
  Mutex mutex_;
  CondVar changed_;
  std::deque<v1::WatchSessionResponse> news_ MEMORYD_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ MEMORYD_GUARDED_BY(mutex_);
};

class WatchServiceTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    Start(Options());
    MustDo(NewPut(kKey, {{"user", "m1"}}));
    options_.look_interval = std::chrono::milliseconds(1);
  }
  void TearDown() override {
    if (service_ != nullptr) service_->Drain();
    for (const auto& call : calls_) call->Go();
    service_.reset();
  }

  void Serve() {
    CallEnvironment environment;
    environment.calls = &in_flight_;
    environment.tenants = &tenants_;
    environment.stats = &stats_;
    environment.log = &call_log_;
    service_ = std::make_unique<WatchService>(&engine_->reads(), environment, options_);
  }
  WatchCall& Call() {
    calls_.push_back(std::make_shared<WatchCall>(&memory_));
    service_->WatchSession(calls_.back());
    return *calls_.back();
  }
  WatchCall& Watch(std::optional<std::int64_t> after_revision = std::nullopt) {
    WatchCall& call = Call();
    v1::WatchSessionRequest request;
    request.set_session_id(kKey.session);
    if (after_revision.has_value()) request.set_after_revision(*after_revision);
    call.Request(request);
    return call;
  }

  WatchServiceOptions options_;
  std::unique_ptr<WatchService> service_;
  std::vector<std::shared_ptr<WatchCall>> calls_;

 private:
  CallsInFlight in_flight_;
  TenantLimiter tenants_{{}};
  CallStats stats_;
  Log log_{LogOptions{true, "error", 2}};
  const CallLog call_log_{&log_, LoggedCalls::kNone};
};

TEST_F(WatchServiceTest, AReaderThatTakesNothingIsToldAllAtOnce) {
  Serve();
  WatchCall& call = Watch();
  EXPECT_THAT(call.Await().changes(), IsEmpty());
  for (int i = 0; i < 20; ++i) MustDo(NewPut(kKey, {{"user", "more"}}));
  EXPECT_EQ(call.untaken(), 0U);
  call.Taken();
  const v1::WatchSessionResponse news = call.Await();
  EXPECT_THAT(news.changes(), ElementsAre(v1::SESSION_CHANGE_MESSAGES_PUT));
  EXPECT_EQ(news.first_new_position(), 2);
  EXPECT_EQ(news.next_position(), 22);
  EXPECT_EQ(news.revision(), 21);
}

TEST_F(WatchServiceTest, ARevisionThatIsNotTheSessionsIsToReload) {
  Serve();
  EXPECT_THAT(Watch(1).Await().changes(), IsEmpty());
  EXPECT_THAT(Watch(0).Await().changes(), ElementsAre(v1::SESSION_CHANGE_RELOAD));
  EXPECT_THAT(Watch(9).Await().changes(), ElementsAre(v1::SESSION_CHANGE_RELOAD));
}

TEST_F(WatchServiceTest, AReaderHearsThatThereIsNoNews) {
  options_.quiet_time = std::chrono::milliseconds(0);
  Serve();
  WatchCall& call = Watch();
  const v1::WatchSessionResponse first = call.Await();
  for (int i = 0; i < 3; ++i) {
    call.Taken();
    EXPECT_EQ(call.Await().SerializeAsString(), first.SerializeAsString());
  }
}

TEST_F(WatchServiceTest, ADeletedSessionIsTheEnd) {
  Serve();
  WatchCall& call = Watch();
  call.Await();
  call.Taken();
  MustDo(NewWrite(commands::DeleteSession(), kKey));
  EXPECT_THAT(call.Await().changes(), ElementsAre(v1::SESSION_CHANGE_DELETED));
  EXPECT_TRUE(call.End().ok());
}

TEST_F(WatchServiceTest, AStoreThatCanNotBeAskedEndsAllWatches) {
  Serve();
  WatchCall& one = Watch();
  WatchCall& other = Watch();
  for (WatchCall* const call : {&one, &other}) {
    call->Await();
    call->Taken();
  }
  store_->FailReads(absl::UnavailableError("gone"));
  EXPECT_TRUE(absl::IsUnavailable(one.End()));
  EXPECT_TRUE(absl::IsUnavailable(other.End()));
}

TEST_F(WatchServiceTest, ADrainEndsWatchesAndTakesNoMore) {
  Serve();
  WatchCall& call = Watch();
  call.Await();
  service_->Drain();
  EXPECT_EQ(ErrorReason(call.End()), "DRAINING");
  EXPECT_EQ(ErrorReason(Call().End()), "DRAINING");
}

TEST_F(WatchServiceTest, AServerHasSoManyWatches) {
  options_.max_streams = 1;
  Serve();
  WatchCall& call = Watch();
  EXPECT_EQ(ErrorReason(Call().End()), "SERVER_BUSY");
  call.Go();
  EXPECT_EQ(service_->stream_count(), 0U);
  EXPECT_THAT(Watch().Await().changes(), IsEmpty());
}

TEST_F(WatchServiceTest, WhatIsHeldOfASessionIsCountedAndGivenBack) {
  Serve();
  WatchCall& call = Watch();
  call.Await();
  const auto replies = static_cast<std::size_t>(MemoryUse::kReplies);
  EXPECT_GT(memory_.HeldByUse()[replies], 0);
  EXPECT_LT(memory_.HeldByUse()[replies], 2000);
  service_->Drain();
  EXPECT_FALSE(call.End().ok());
  EXPECT_EQ(memory_.HeldByUse()[replies], 0);
}

}  // namespace
}  // namespace memoryd
