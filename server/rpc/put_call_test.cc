#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/storage/store.h"
#include "memoryd/v1/memory_service.pb.h"
#include "server/access/tenant_limiter.h"
#include "server/ops/call_log.h"
#include "server/ops/call_stats.h"
#include "server/ops/calls_in_flight.h"
#include "server/ops/log.h"
#include "server/rpc/memory_service.h"
#include "server/rpc/unary_call.h"
#include "server/wire/method.h"
#include "server/wire/rpc_call.h"
#include "tests/support/engine_fixture.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;

constexpr char kTenant[] = "default";

// A call of PutBatch, and what becomes of it.
class BatchCall final : public RpcCall {
 public:
  explicit BatchCall(MemoryBudget* memory) : memory_(*memory) {}

  const CallMetadata& metadata() const override { return metadata_; }
  const std::vector<std::string>& certificate_names() const override { return names_; }
  TimePoint deadline() const override { return deadline_; }
  bool IsCancelled() const override { return cancelled_; }
  void SetHandler(std::shared_ptr<RpcHandler> handler) override {
    if (handler != nullptr) handler_ = std::move(handler);
  }
  absl::Status ChargeTo(std::string_view /*tenant*/) override { return absl::OkStatus(); }
  void Read() override {}
  absl::StatusOr<MemoryBudget::Hold> Take(MemoryUse use, std::int64_t bytes) override {
    return memory_.Take(kTenant, use, bytes);
  }
  void Send(std::string /*message*/, MemoryBudget::Hold /*hold*/) override {}
  void SendLast(std::string message, MemoryBudget::Hold /*hold*/) override {
    v1::PutBatchResponse reply;
    EXPECT_TRUE(reply.ParseFromString(message));
    reply_.set_value(std::move(reply));
  }
  void Finish(const absl::Status& status, std::string_view /*request_id*/) override {
    reply_.set_value(Detached(status));
  }
  void Cancel() override { cancelled_ = true; }

  void SetDeadline(TimePoint deadline) { deadline_ = deadline; }
  std::future<absl::StatusOr<v1::PutBatchResponse>> Request(const v1::PutBatchRequest& request) {
    std::exchange(handler_, nullptr)->OnMessage(request.SerializeAsString());
    return reply_.get_future();
  }

 private:
  MemoryBudget& memory_;
  TimePoint deadline_ = TimePoint::max();
  const CallMetadata metadata_{};
  const std::vector<std::string> names_{};
  std::shared_ptr<RpcHandler> handler_;
  std::atomic<bool> cancelled_{false};
  std::promise<absl::StatusOr<v1::PutBatchResponse>> reply_;
};

class PutBatchTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    Start(Options());
    CallEnvironment environment;
    environment.calls = &in_flight_;
    environment.tenants = &tenants_;
    environment.stats = &stats_;
    environment.log = &call_log_;
    service_ = std::make_unique<MemoryService>(engine_.get(), environment);
  }

  // A call that has begun, with a Put of one message for each of these sessions. Its request comes
  // when the deadline is over, if it has one.
  std::future<absl::StatusOr<v1::PutBatchResponse>> Begin(
      const std::vector<std::string>& sessions,
      std::optional<RpcCall::TimePoint> deadline = std::nullopt) {
    v1::PutBatchRequest request;
    for (const std::string& session : sessions) {
      v1::PutRequest& put = *request.add_puts();
      put.set_session_id(session);
      // There is no vocabulary here.
      put.mutable_config()->set_tokenizer("whitespace");
      v1::Message& message = *put.add_messages();
      message.set_role("user");
      message.set_text("words");
    }
    call_ = std::make_shared<BatchCall>(&memory_);
    if (deadline.has_value()) call_->SetDeadline(*deadline);
    service_->PutBatch(call_);
    while (deadline.has_value() && std::chrono::steady_clock::now() < *deadline) {
      std::this_thread::yield();
    }
    return call_->Request(request);
  }
  // Of each Put: the revision that it made, or its error.
  static std::vector<std::string> Outcomes(
      std::future<absl::StatusOr<v1::PutBatchResponse>> future) {
    const absl::StatusOr<v1::PutBatchResponse> reply = Await(std::move(future));
    EXPECT_TRUE(reply.ok()) << reply.status();
    std::vector<std::string> found;
    for (const v1::PutOutcome& outcome : reply->outcomes()) {
      found.push_back(outcome.has_reply() ? std::to_string(outcome.reply().revision())
                                          : outcome.error().reason());
    }
    return found;
  }

  std::shared_ptr<BatchCall> call_;
  CallsInFlight in_flight_;
  CallStats stats_;

 private:
  TenantLimiter tenants_{{}};
  Log log_{LogOptions{true, "error", 2}};
  const CallLog call_log_{&log_, LoggedCalls::kNone};
  std::unique_ptr<MemoryService> service_;
};

TEST_F(PutBatchTest, PutsOfASessionFollowEachOtherAndOthersDoNotWait) {
  EXPECT_THAT(Outcomes(Begin({"a", "b", "a", "", "a", "b"})),
              ElementsAre("1", "1", "2", "INVALID_FIELD", "3", "2"));
  EXPECT_EQ(stats_.ended(Method::kPut, 0), 5U);
  EXPECT_EQ(stats_.ended(Method::kPutBatch, 0), 1U);
  EXPECT_THAT(Outcomes(Begin({})), ElementsAre());
  // Each leaves behind its reply.
  EXPECT_TRUE(in_flight_.Drain(std::chrono::steady_clock::now() + std::chrono::hours(1)));
}

TEST_F(PutBatchTest, ACommitThatMayBeStoredIsToldOfItsPutsAlone) {
  ASSERT_THAT(Outcomes(Begin({"a", "b"})), ElementsAre("1", "1"));
  store_->AnswerNext(CommitOutcome::kUnknown);
  EXPECT_THAT(Outcomes(Begin({"a"})), ElementsAre("OUTCOME_UNKNOWN"));
  store_->AnswerNext(CommitOutcome::kFailed, absl::UnavailableError("away"));
  EXPECT_THAT(Outcomes(Begin({"b", "b"})), ElementsAre("STORE_UNAVAILABLE", "2"));
}

TEST_F(PutBatchTest, WhatHasNotBegunIsNotDoneWhenTheCallerIsGone) {
  store_->StallCommits();
  auto reply = Begin({"a", "a", "a"});
  store_->AwaitStalled(1);
  call_->Cancel();
  store_->ReleaseCommits();
  EXPECT_THAT(Outcomes(std::move(reply)), ElementsAre("1", "CANCELLED", "CANCELLED"));
}

TEST_F(PutBatchTest, NothingBeginsWhenTheTimeIsOverAndTheBatchIsAnsweredStill) {
  auto reply =
      Begin({"a", "b", "a"}, std::chrono::steady_clock::now() + std::chrono::milliseconds(200));
  EXPECT_THAT(Outcomes(std::move(reply)),
              ElementsAre("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"));
  EXPECT_EQ(
      stats_.ended(Method::kPut, static_cast<std::size_t>(absl::StatusCode::kDeadlineExceeded)),
      3U);
  EXPECT_THAT(Outcomes(Begin({"a"})), ElementsAre("1"));
}

TEST_F(PutBatchTest, WhatHasNotBegunIsNotDoneWhenTheServerDrains) {
  store_->StallCommits();
  auto reply = Begin({"a", "a", "b"});
  store_->AwaitStalled(1);
  EXPECT_FALSE(in_flight_.Drain(std::chrono::steady_clock::now()));
  store_->ReleaseCommits();
  EXPECT_THAT(Outcomes(std::move(reply)), ElementsAre("1", "DRAINING", "1"));
}

}  // namespace
}  // namespace memoryd
