#include "server/rpc/worker_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/blocks/block.h"
#include "core/blocks/worker_block.h"
#include "core/llm/model.h"
#include "core/model/body_reader.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session_config.h"
#include "core/model/trace_context.h"
#include "core/model/usage_count.h"
#include "google/rpc/error_details.pb.h"
#include "memoryd/v1/worker_service.grpc.pb.h"
#include "server/http2/http2_server.h"
#include "server/ops/call_log.h"
#include "server/ops/call_stats.h"
#include "server/ops/calls_in_flight.h"
#include "server/ops/log.h"
#include "server/rpc/unary_call.h"
#include "server/wire/method.h"
#include "server/wire/rpc_call.h"

namespace memoryd {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point Later() { return Clock::now() + std::chrono::minutes(1); }

// Has no models, and remembers what it was told last.
class CountedAnswers final : public ModelDirectory {
 public:
  absl::StatusOr<std::shared_ptr<ChatModel>> FindChatModel(std::string_view /*tenant*/,
                                                           std::string_view /*worker*/,
                                                           std::string_view /*model*/) override {
    return absl::NotFoundError("there is none");
  }
  absl::StatusOr<std::shared_ptr<Embedder>> FindEmbedder(std::string_view /*tenant*/,
                                                         std::string_view /*worker*/,
                                                         std::string_view /*name*/) override {
    return absl::NotFoundError("there is none");
  }
  void Answered(const ModelCaller& caller, const Usage& usage) override {
    MutexLock lock(mutex_);
    last_ = caller.block + " " + caller.job_id + " " + std::to_string(usage.calls);
  }

  std::string Take() {
    MutexLock lock(mutex_);
    return std::exchange(last_, {});
  }

 private:
  Mutex mutex_;
  std::string last_ MEMORYD_GUARDED_BY(mutex_);
};

// An agent's process, as far as its stream goes.
class AgentStream {
 public:
  explicit AgentStream(v1::WorkerService::Stub& stub) : stream_(stub.Attach(&context_)) {}
  ~AgentStream() {
    context_.TryCancel();
    if (!finished_) stream_->Finish();
  }

  bool Say(const v1::AttachRequest& request) { return stream_->Write(request); }
  bool Hello(int calls = 8, const std::string& name = "w") {
    v1::AttachRequest request;
    v1::WorkerHello& hello = *request.mutable_hello();
    hello.set_name(name);
    v1::WorkerBlock& block = *hello.add_blocks();
    block.set_name("mentions");
    block.set_takes_messages(true);
    block.set_truncates(true);
    hello.add_models("chat");
    hello.add_embedders("embed");
    hello.set_max_concurrent_calls(calls);
    return Say(request);
  }
  // Hello, and what is said to it.
  void Join(int calls = 8) {
    ASSERT_TRUE(Hello(calls));
    const auto response = Hear();
    ASSERT_TRUE(response.has_value());
    ASSERT_TRUE(response->has_welcome()) << response->DebugString();
  }
  std::optional<v1::AttachResponse> Hear() {
    v1::AttachResponse response;
    if (!stream_->Read(&response)) return std::nullopt;
    return response;
  }
  v1::WorkerCall HearCall() {
    const auto response = Hear();
    EXPECT_TRUE(response.has_value() && response->has_call());
    return response.has_value() ? response->call() : v1::WorkerCall();
  }
  void AnswerText(std::int64_t call_id, const std::string& text) {
    v1::AttachRequest request;
    request.mutable_result()->set_call_id(call_id);
    request.mutable_result()->mutable_complete()->set_text(text);
    Say(request);
  }
  void Close() { stream_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }
  // The end, after what else was said.
  grpc::Status End() {
    while (Hear().has_value()) {
    }
    finished_ = true;
    return stream_->Finish();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AttachRequest, v1::AttachResponse>> stream_;
  bool finished_ = false;
};

std::string ReasonOf(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  if (!details.ParseFromString(status.error_details()) || details.details().empty()) return {};
  details.details(0).UnpackTo(&info);
  return info.reason();
}

class WorkerServiceTest : public ::testing::Test {
 protected:
  void Serve(WorkerServiceOptions options = {}) {
    options.version = "1.2.3";
    CallEnvironment environment;
    environment.calls = &in_flight_;
    environment.stats = &stats_;
    environment.log = &call_log_;
    service_ = std::make_unique<WorkerService>(&registry_, environment, options);
    service_->AddTo(methods_);
    Http2ServerOptions listening;
    listening.addresses = {"127.0.0.1:0"};
    auto started = Http2Server::Start(std::move(listening), &methods_, &budget_);
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    stub_ = v1::WorkerService::NewStub(
        grpc::CreateChannel(server_->addresses()[0], grpc::InsecureChannelCredentials()));
  }
  void TearDown() override {
    if (server_ == nullptr) return;
    service_->EndStreams(Later());
    server_->Shutdown(Clock::now());
    server_.reset();
    EXPECT_EQ(service_->stream_count(), 0u);
    // A thread that looks at the streams, or calls a worker, may be the last to hold one.
    service_.reset();
    const Clock::time_point deadline = Later();
    while (budget_.held() > 0 && Clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(budget_.held(), 0);
    EXPECT_EQ(registry_.attached(), 0u);
    EXPECT_EQ(registry_.open_calls(), 0u);
  }

  // Waits for the registry to know `count` workers.
  void Attached(std::size_t count) {
    while (registry_.attached() != count) std::this_thread::yield();
  }

  std::shared_ptr<ChatModel> Model() {
    auto found = registry_.FindChatModel("default", "w", "chat");
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? *found : nullptr;
  }
  std::future<absl::StatusOr<ChatReply>> Complete(const std::string& text,
                                                  Clock::time_point deadline = Later()) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<ChatReply>>>();
    ChatRequest request;
    StoredMessage& message = request.messages.emplace_back();
    message.role = "user";
    message.parts.emplace_back().text = text;
    request.max_tokens = 5;
    Model()->Complete(
        {"default", "s", "b", "job"}, request, deadline,
        [promise](absl::StatusOr<ChatReply> reply) { promise->set_value(std::move(reply)); });
    return promise->get_future();
  }

  WorkerRegistry registry_{{.max_waiting_calls = 2000}};
  CallsInFlight in_flight_;
  CallStats stats_;
  Log log_{LogOptions{true, "error", 2}};
  const CallLog call_log_{&log_, LoggedCalls::kNone};
  std::unique_ptr<WorkerService> service_;
  RpcMethods methods_;
  MemoryBudget budget_{0};
  std::unique_ptr<Http2Server> server_;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
};

TEST_F(WorkerServiceTest, AChatGoesThereAndBack) {
  Serve();
  AgentStream agent(*stub_);
  ASSERT_TRUE(agent.Hello(3));
  const auto response = agent.Hear();
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->welcome().server_version(), "1.2.3");
  EXPECT_EQ(response->welcome().max_concurrent_calls(), 3);
  EXPECT_EQ(response->welcome().max_message_bytes(), 36 << 20);
  Attached(1);
  auto reply = Complete("Hi");
  const v1::WorkerCall call = agent.HearCall();
  EXPECT_EQ(call.session_id(), "s");
  EXPECT_EQ(call.block(), "b");
  EXPECT_EQ(call.job_id(), "job");
  EXPECT_GT(call.timeout().seconds(), 30);
  EXPECT_LE(call.timeout().seconds(), 60);
  EXPECT_EQ(call.complete().model(), "chat");
  EXPECT_EQ(call.complete().messages(0).text(), "Hi");
  EXPECT_EQ(call.complete().max_token_count(), 5);
  v1::AttachRequest answer;
  v1::WorkerResult& result = *answer.mutable_result();
  result.set_call_id(call.call_id());
  result.mutable_complete()->set_text("Hello");
  result.mutable_usage()->set_calls(1);
  result.mutable_usage()->set_prompt_token_count(7);
  result.mutable_usage()->set_completion_token_count(-3);
  agent.Say(answer);
  const auto got = reply.get();
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->text, "Hello");
  EXPECT_EQ(got->usage, (Usage{1, 7, 0}));

  // More than anybody can have taken is believed as little as less than nothing.
  auto greedy = Complete("Again");
  result.set_call_id(agent.HearCall().call_id());
  result.mutable_usage()->set_calls(kMaxAnswerUsage + 1);
  result.mutable_usage()->set_prompt_token_count(std::numeric_limits<std::int64_t>::max());
  result.mutable_usage()->set_completion_token_count(kMaxAnswerUsage);
  agent.Say(answer);
  EXPECT_EQ(greedy.get()->usage, (Usage{0, 0, kMaxAnswerUsage}));
  agent.Close();
  EXPECT_TRUE(agent.End().ok());
  Attached(0);
  EXPECT_EQ(stats_.ended(Method::kAttach, 0), 1u);
}

// With a block of a worker that has attached.
class WorkerBlockTest : public WorkerServiceTest {
 protected:
  void SetUp() override {
    Serve();
    agent_.emplace(*stub_);
    agent_->Join();
    Attached(1);
    settings_.name = "mentions";
    settings_.worker = "w";
    block_ = std::make_shared<const WorkerBlock>(
        settings_, ReadWorkerTraits(settings_, "block", Profile::kDefault), &registry_, &models_);
  }
  void TearDown() override {
    block_.reset();
    agent_.reset();
    WorkerServiceTest::TearDown();
  }

  // To which a result can be added.
  static v1::AttachRequest AnswerTo(const v1::WorkerCall& call) {
    v1::AttachRequest answer;
    answer.mutable_result()->set_call_id(call.call_id());
    return answer;
  }

  std::optional<AgentStream> agent_;
  BlockSettings settings_;
  CountedAnswers models_;
  std::shared_ptr<const WorkerBlock> block_;
  const std::shared_ptr<UsageCount> usage_ = std::make_shared<UsageCount>();
  const BlockSession session_{{"default", "s"}, Profile::kDefault};
};

TEST_F(WorkerBlockTest, TakesIn) {
  // As a stored message, with a field the core knows nothing of.
  v1::Message body;
  body.set_role("user");
  body.set_text("Logan");
  body.mutable_create_time()->set_seconds(5);
  MessageDraft row;
  row.position = 9;
  row.token_count = 4;
  row.ingest_us = 3'000'000;
  row.body = body.SerializeAsString();
  FeedRequest feed;
  feed.session = session_;
  feed.session.trace = std::make_shared<TraceContext>(
      TraceContext{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=1"});
  feed.state.state = std::string("a\0b", 3);
  feed.messages.push_back({row, "m9", {}});
  feed.job_id = "j";
  feed.attempt = 2;
  feed.deadline = Later();
  feed.usage = usage_;
  std::promise<absl::StatusOr<FeedResult>> fed;
  const std::shared_ptr<const TraceContext> trace = feed.session.trace;
  block_->Feed(std::move(feed),
               [&](absl::StatusOr<FeedResult> result) { fed.set_value(std::move(result)); });
  const v1::WorkerCall call = agent_->HearCall();
  EXPECT_EQ(call.put().state(), std::string("a\0b", 3));
  EXPECT_EQ(call.put().attempt(), 2);
  EXPECT_EQ(call.traceparent(), trace->traceparent);
  EXPECT_EQ(call.tracestate(), "a=1");
  ASSERT_EQ(call.put().messages_size(), 1);
  EXPECT_EQ(call.put().messages(0).message_id(), "m9");
  EXPECT_EQ(call.put().messages(0).position(), 9);
  EXPECT_EQ(call.put().messages(0).create_time().seconds(), 5);
  EXPECT_EQ(call.put().messages(0).text(), "Logan");
  v1::AttachRequest answer = AnswerTo(call);
  answer.mutable_result()->mutable_put()->set_state(std::string("\xFF\0", 2));
  answer.mutable_result()->mutable_usage()->set_calls(2);
  agent_->Say(answer);
  EXPECT_EQ(fed.get_future().get()->state, std::string("\xFF\0", 2));
  EXPECT_EQ(models_.Take(), "mentions j 2");
  EXPECT_EQ(usage_->Total().calls, 2);
}

TEST_F(WorkerBlockTest, SaysWhatItKnows) {
  Usage before;
  before.calls = 2;
  usage_->Add(before);
  RenderRequest render;
  render.session = session_;
  BlockMessage input;
  input.parts.role = "user";
  input.parts.parts.emplace_back().text = "input";
  render.messages.push_back(input);
  render.deadline = Later();
  render.usage = usage_;
  std::promise<absl::StatusOr<BlockContent>> rendered;
  block_->Render(render, [&](absl::StatusOr<BlockContent> c) { rendered.set_value(std::move(c)); });
  const v1::WorkerCall call = agent_->HearCall();
  EXPECT_EQ(call.get().messages(0).text(), "input");
  EXPECT_EQ(call.traceparent(), "");
  EXPECT_EQ(call.tracestate(), "");
  v1::AttachRequest answer = AnswerTo(call);
  v1::WorkerContent& said = *answer.mutable_result()->mutable_content();
  said.add_parts()->set_text("Logan was mentioned 3 times.");
  said.add_parts()->mutable_image()->set_url("http://x/y.png");
  said.add_messages()->set_role("system");
  said.mutable_messages(0)->set_text("before");
  answer.mutable_result()->mutable_usage()->set_calls(3);
  agent_->Say(answer);
  const auto content = rendered.get_future().get();
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_EQ(models_.Take(), "mentions  3");
  EXPECT_EQ(usage_->Total().calls, 5);
  ASSERT_EQ(content->parts.size(), 2u);
  EXPECT_EQ(content->parts[0].text, "Logan was mentioned 3 times.");
  EXPECT_EQ(content->parts[1].kind, StoredPart::Kind::kImage);
  EXPECT_EQ(content->messages.at(0).parts.at(0).text, "before");
}

TEST_F(WorkerBlockTest, Shortens) {
  BlockContent content;
  content.parts.emplace_back().text = "Logan was mentioned 3 times.";
  BlockPart& image = content.parts.emplace_back();
  image.kind = StoredPart::Kind::kImage;
  image.url = "http://x/y.png";
  StoredMessage& message = content.messages.emplace_back();
  message.role = "system";
  message.parts.emplace_back().text = "before";
  std::promise<absl::StatusOr<BlockContent>> truncated;
  registry_.Truncate({"w", "mentions", ""}, session_, content, 12, Later(),
                     [&](absl::StatusOr<BlockContent> c) { truncated.set_value(std::move(c)); });
  const v1::WorkerCall call = agent_->HearCall();
  EXPECT_EQ(call.truncate().token_count(), 12);
  EXPECT_EQ(call.truncate().content().parts(0).text(), "Logan was mentioned 3 times.");
  EXPECT_EQ(call.truncate().content().parts(1).image().url(), "http://x/y.png");
  EXPECT_EQ(call.truncate().content().messages(0).text(), "before");
  v1::AttachRequest answer = AnswerTo(call);
  answer.mutable_result()->mutable_content();
  agent_->Say(answer);
  EXPECT_TRUE(truncated.get_future().get()->empty());
}

TEST_F(WorkerServiceTest, TextsAreEmbedded) {
  Serve();
  AgentStream agent(*stub_);
  agent.Join();
  Attached(1);
  const auto embedder = registry_.FindEmbedder("default", "w", "embed");
  ASSERT_TRUE(embedder.ok());
  std::promise<absl::StatusOr<EmbedReply>> embedded;
  (*embedder)->Embed({"default", "s", "b", ""}, EmbedPurpose::kQuery, {"a", "b"}, Later(),
                     [&](absl::StatusOr<EmbedReply> r) { embedded.set_value(std::move(r)); });
  const v1::WorkerCall call = agent.HearCall();
  EXPECT_EQ(call.embed().embedder(), "embed");
  EXPECT_EQ(call.embed().texts_size(), 2);
  EXPECT_EQ(call.embed().purpose(), v1::EMBED_PURPOSE_QUERY);
  v1::AttachRequest answer;
  answer.mutable_result()->set_call_id(call.call_id());
  for (const float x : {0.5F, -1.25F}) {
    answer.mutable_result()->mutable_embed()->add_vectors()->add_values(x);
  }
  agent.Say(answer);
  const auto reply = embedded.get_future().get();
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->vectors, (std::vector<std::vector<float>>{{0.5F}, {-1.25F}}));
}

TEST_F(WorkerServiceTest, WhatAWorkerFailsWithIsPassedOn) {
  Serve();
  AgentStream agent(*stub_);
  agent.Join();
  Attached(1);
  struct Case {
    int code;
    absl::StatusCode expected;
  };
  for (const Case& c :
       {Case{14, absl::StatusCode::kUnavailable}, Case{9, absl::StatusCode::kFailedPrecondition},
        Case{0, absl::StatusCode::kUnknown}, Case{99, absl::StatusCode::kUnknown},
        Case{-1, absl::StatusCode::kUnknown}}) {
    auto reply = Complete("x");
    v1::AttachRequest answer;
    answer.mutable_result()->set_call_id(agent.HearCall().call_id());
    answer.mutable_result()->mutable_error()->set_code(c.code);
    answer.mutable_result()->mutable_error()->set_message(std::string(5000, 'm'));
    agent.Say(answer);
    const absl::Status status = reply.get().status();
    EXPECT_EQ(status.code(), c.expected) << c.code;
    EXPECT_EQ(ErrorReason(status), "WORKER_FAILED");
    EXPECT_EQ(status.message().size(), 1024u);
  }
  auto reply = Complete("x");
  v1::AttachRequest answer;
  answer.mutable_result()->set_call_id(agent.HearCall().call_id());
  agent.Say(answer);
  EXPECT_TRUE(absl::IsDataLoss(reply.get().status())) << "no result at all";
}

TEST_F(WorkerServiceTest, ADeadlineCancelsAndALateAnswerIsIgnored) {
  Serve();
  AgentStream agent(*stub_);
  agent.Join(1);
  Attached(1);
  auto late = Complete("late", Clock::now() + std::chrono::milliseconds(300));
  const std::int64_t id = agent.HearCall().call_id();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.get().status()));
  const auto cancel = agent.Hear();
  ASSERT_TRUE(cancel.has_value());
  EXPECT_EQ(cancel->cancel().call_id(), id);
  auto next = Complete("next");
  agent.AnswerText(id, "too late");
  const std::int64_t next_id = agent.HearCall().call_id();
  EXPECT_NE(next_id, id);
  agent.AnswerText(next_id, "in time");
  EXPECT_EQ(next.get()->text, "in time");
}

TEST_F(WorkerServiceTest, AWorkerThatVanishesFailsItsCallsAndAnotherTakesOver) {
  Serve();
  auto first = std::make_unique<AgentStream>(*stub_);
  first->Join(1);
  Attached(1);
  auto lost = Complete("lost");
  first->HearCall();
  auto waits = Complete("waits");
  AgentStream second(*stub_);
  second.Join(1);
  const v1::WorkerCall call = second.HearCall();
  EXPECT_EQ(call.complete().messages(0).text(), "waits");
  first->Cancel();
  const absl::Status status = lost.get().status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(ErrorReason(status), "WORKER_GONE");
  second.AnswerText(call.call_id(), "done");
  EXPECT_EQ(waits.get()->text, "done");
}

TEST_F(WorkerServiceTest, AThousandCallsOverAPoolOfTwo) {
  constexpr int kCalls = 1000;
  Serve();
  std::atomic<int> answered[2] = {0, 0};
  std::vector<std::thread> agents;
  for (int i = 0; i < 2; ++i) {
    agents.emplace_back([&, i] {
      AgentStream agent(*stub_);
      agent.Join(16);
      while (const auto response = agent.Hear()) {
        if (response->has_drain()) break;
        const v1::WorkerCall& call = response->call();
        agent.AnswerText(call.call_id(), "re: " + call.complete().messages(0).text());
        ++answered[i];
      }
    });
  }
  Attached(2);
  std::vector<std::future<absl::StatusOr<ChatReply>>> replies;
  replies.reserve(kCalls);
  for (int i = 0; i < kCalls; ++i) replies.push_back(Complete(std::to_string(i)));
  for (int i = 0; i < kCalls; ++i) {
    const auto reply = replies[static_cast<std::size_t>(i)].get();
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->text, "re: " + std::to_string(i));
  }
  EXPECT_GT(answered[0], 0);
  EXPECT_GT(answered[1], 0);
  service_->BeginDrain();
  for (std::thread& agent : agents) agent.join();
}

TEST_F(WorkerServiceTest, WhatIsNoHelloEndsTheStream) {
  Serve();
  v1::AttachRequest nothing;
  v1::AttachRequest result;
  result.mutable_result()->set_call_id(1);
  v1::AttachRequest nameless;
  nameless.mutable_hello()->add_models("m");
  v1::AttachRequest twice;
  twice.mutable_hello()->set_name("w");
  twice.mutable_hello()->add_blocks()->set_name("b");
  twice.mutable_hello()->add_blocks()->set_name("b");
  v1::AttachRequest two_models;
  two_models.mutable_hello()->set_name("w");
  two_models.mutable_hello()->add_models("m");
  two_models.mutable_hello()->add_models("m");
  v1::AttachRequest odd_block;
  odd_block.mutable_hello()->set_name("w");
  odd_block.mutable_hello()->add_blocks()->set_name("a b");
  v1::AttachRequest greedy;
  greedy.mutable_hello()->set_name("w");
  greedy.mutable_hello()->set_max_concurrent_calls(257);
  for (const auto& request : {nothing, result, nameless, twice, two_models, odd_block, greedy}) {
    AgentStream agent(*stub_);
    agent.Say(request);
    const grpc::Status status = agent.End();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << request.DebugString();
    EXPECT_FALSE(ReasonOf(status).empty());
  }
  AgentStream agent(*stub_);
  agent.Join();
  agent.Hello();
  EXPECT_EQ(ReasonOf(agent.End()), "WORKER_PROTOCOL") << "hello is said once";
}

TEST_F(WorkerServiceTest, AHelloMustComeSoon) {
  WorkerServiceOptions options;
  options.hello_time = std::chrono::milliseconds(20);
  options.look_interval = std::chrono::milliseconds(5);
  Serve(options);
  AgentStream silent(*stub_);
  const grpc::Status status = silent.End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(ReasonOf(status), "HELLO_MISSING");
}

TEST_F(WorkerServiceTest, StreamsOfATenantAreBounded) {
  WorkerServiceOptions options;
  options.max_streams_per_tenant = 2;
  Serve(options);
  auto one = std::make_unique<AgentStream>(*stub_);
  one->Join();
  AgentStream two(*stub_);
  two.Join();
  {
    AgentStream three(*stub_);
    const grpc::Status status = three.End();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(ReasonOf(status), "TOO_MANY_WORKERS");
  }
  one.reset();
  while (service_->stream_count() > 1) std::this_thread::yield();
  AgentStream again(*stub_);
  again.Join();
}

// A call whose end nobody takes note of.
class EndlessCall final : public RpcCall {
 public:
  const CallMetadata& metadata() const override { return metadata_; }
  const std::vector<std::string>& certificate_names() const override { return names_; }
  TimePoint deadline() const override { return TimePoint::max(); }
  bool IsCancelled() const override { return false; }
  void SetHandler(std::shared_ptr<RpcHandler> handler) override { handler_ = std::move(handler); }
  absl::Status ChargeTo(std::string_view /*tenant*/) override { return absl::OkStatus(); }
  void Read() override {}
  absl::StatusOr<MemoryBudget::Hold> Take(MemoryUse /*use*/, std::int64_t /*bytes*/) override {
    return MemoryBudget::Hold();
  }
  void Send(std::string /*message*/, MemoryBudget::Hold /*hold*/) override {}
  void SendLast(std::string /*message*/, MemoryBudget::Hold /*hold*/) override {}
  void Finish(const absl::Status& status, std::string_view /*request_id*/) override {
    end_ = status;
  }
  void Cancel() override {}

  const absl::Status& end() const { return end_; }
  // The caller is gone.
  void Go() {
    const std::shared_ptr<RpcHandler> handler = std::move(handler_);
    handler->OnDone();
  }

 private:
  const CallMetadata metadata_{};
  const std::vector<std::string> names_{};
  std::shared_ptr<RpcHandler> handler_;
  absl::Status end_;
};

TEST_F(WorkerServiceTest, OneWhoWasRefusedTakesNobodysPlace) {
  WorkerServiceOptions options;
  options.max_streams = 2;
  options.max_streams_per_tenant = 1;
  Serve(options);
  std::vector<std::shared_ptr<EndlessCall>> refused;
  {
    AgentStream agent(*stub_);
    agent.Join(1);
    for (int i = 0; i < 5; ++i) {
      refused.push_back(std::make_shared<EndlessCall>());
      service_->Attach(refused.back());
      EXPECT_TRUE(absl::IsResourceExhausted(refused.back()->end())) << refused.back()->end();
    }
  }
  Attached(0);
  while (service_->stream_count() != refused.size()) std::this_thread::yield();
  AgentStream agent(*stub_);
  agent.Join(1);
  for (const auto& call : refused) call->Go();
}

TEST_F(WorkerServiceTest, ADrainIsToldThenEndsTheStreams) {
  Serve();
  AgentStream agent(*stub_);
  agent.Join();
  Attached(1);
  service_->BeginDrain();
  const auto drain = agent.Hear();
  ASSERT_TRUE(drain.has_value() && drain->has_drain());
  auto reply = Complete("still");
  agent.AnswerText(agent.HearCall().call_id(), "served");
  EXPECT_EQ(reply.get()->text, "served");
  AgentStream late(*stub_);
  EXPECT_EQ(ReasonOf(late.End()), "DRAINING");
  std::thread ending([this] { EXPECT_TRUE(service_->EndStreams(Later())); });
  const grpc::Status status = agent.End();
  ending.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(status), "DRAINING");
}

TEST_F(WorkerServiceTest, AWorkerThatDoesNotReadGetsNoMoreThanItsCalls) {
  WorkerServiceOptions options;
  options.look_interval = std::chrono::milliseconds(5);
  options.flush_time = std::chrono::milliseconds(20);
  Serve(options);
  AgentStream agent(*stub_);
  agent.Join(256);
  Attached(1);
  // Beyond what the connection takes without being read.
  const std::string text(1 << 20, 'x');
  std::vector<std::future<absl::StatusOr<ChatReply>>> replies;
  replies.reserve(40);
  for (int i = 0; i < 40; ++i) {
    replies.push_back(Complete(text, Clock::now() + std::chrono::milliseconds(200)));
  }
  for (auto& reply : replies) EXPECT_TRUE(absl::IsDeadlineExceeded(reply.get().status()));
  // A stream whose writes are stuck ends nevertheless.
  EXPECT_TRUE(service_->EndStreams(Later()));
}

}  // namespace
}  // namespace memoryd
