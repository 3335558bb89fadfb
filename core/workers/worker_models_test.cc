#include "core/workers/worker_models.h"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/llm/model.h"
#include "core/workers/worker_call.h"

namespace memoryd {
namespace {

constexpr auto kLater = std::chrono::steady_clock::time_point::max();

// Answers each call at once.
class AnsweringCaller final : public WorkerCaller {
 public:
  void Ask(const WorkerPoolKey& pool, WorkerCall call, Finish finish) override {
    asked = pool;
    request = std::move(call.request);
    finish(answer);
  }

  absl::StatusOr<WorkerReply> answer = WorkerReply();
  WorkerPoolKey asked;
  WorkerRequest request;
};

class WorkerModelsTest : public ::testing::Test {
 protected:
  absl::StatusOr<ChatReply> Complete() {
    std::optional<absl::StatusOr<ChatReply>> got;
    MakeWorkerChatModel(&caller_, {"t", "w"}, "gpt")
        ->Complete({}, {}, kLater,
                   [&](absl::StatusOr<ChatReply> reply) { got = std::move(reply); });
    return *std::move(got);
  }
  absl::StatusOr<EmbedReply> Embed(std::vector<std::vector<float>> vectors) {
    caller_.answer->result = WorkerVectorsReply{std::move(vectors)};
    std::optional<absl::StatusOr<EmbedReply>> got;
    MakeWorkerEmbedder(&caller_, {"t", "w"}, "ada")
        ->Embed({}, EmbedPurpose::kQuery, {"one", "two"}, kLater,
                [&](absl::StatusOr<EmbedReply> reply) { got = std::move(reply); });
    return *std::move(got);
  }

  AnsweringCaller caller_;
};

TEST_F(WorkerModelsTest, AsksTheWorkersOfItsNameAndHandsOnWhatTheySay) {
  caller_.answer->result = WorkerTextReply{"hello", "length"};
  caller_.answer->usage = {1, 20, 3};
  const absl::StatusOr<ChatReply> reply = Complete();
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->text, "hello");
  EXPECT_EQ(reply->finish_reason, "length");
  EXPECT_EQ(reply->usage, (Usage{1, 20, 3}));
  EXPECT_EQ(caller_.asked, (WorkerPoolKey{"t", "w"}));
  EXPECT_EQ(std::get<WorkerComplete>(caller_.request).model, "gpt");
}

TEST_F(WorkerModelsTest, TakesEmbeddingsOfOneSize) {
  const absl::StatusOr<EmbedReply> reply = Embed({{1, 0}, {0, 1}});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->vectors, (std::vector<std::vector<float>>{{1, 0}, {0, 1}}));
  EXPECT_EQ(std::get<WorkerEmbed>(caller_.request).purpose, EmbedPurpose::kQuery);
}

TEST_F(WorkerModelsTest, WhatIsNoAnswerToTheCallIsDataLoss) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  for (const auto& vectors : std::vector<std::vector<std::vector<float>>>{
           {{1, 0}}, {{1, 0}, {1}}, {{}, {}}, {{1}, {kInfinite}}}) {
    EXPECT_EQ(ErrorReason(Embed(vectors).status()), "WORKER_ANSWER");
  }
  EXPECT_EQ(ErrorReason(Complete().status()), "WORKER_ANSWER") << "vectors are no text";
}

TEST_F(WorkerModelsTest, HandsOnWhyAWorkerDidNotAnswer) {
  caller_.answer = Error(absl::StatusCode::kUnavailable, "WORKER_GONE", "gone");
  EXPECT_EQ(ErrorReason(Complete().status()), "WORKER_GONE");
}

}  // namespace
}  // namespace memoryd
