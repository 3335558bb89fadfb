#include "core/llm/openai_client.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/llm/configured_models.h"
#include "core/llm/model.h"
#include "core/llm/model_settings.h"
#include "core/llm/model_stats.h"
#include "core/model/body_reader.h"
#include "core/model/job.h"
#include "core/model/trace_context.h"
#include "tests/support/fake_certificate.h"
#include "tests/support/fake_http_server.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr char kHello[] =
    R"({"choices":[{"message":{"content":"Hello"}}],"usage":{"prompt_tokens":3,"completion_tokens":2}})";

// Long enough that only what should be waited for is.
ModelDeadline Far() { return std::chrono::steady_clock::now() + std::chrono::minutes(5); }
// What is held up ends by it.
ModelDeadline Near() { return std::chrono::steady_clock::now() + std::chrono::milliseconds(100); }

// Takes what `done` is called with.
template <typename T>
class Result {
 public:
  std::function<void(absl::StatusOr<T>)> Done() {
    return [state = state_](absl::StatusOr<T> result) {
      MutexLock lock(state->mutex);
      ++state->count;
      state->result = std::move(result);
      state->ended.NotifyAll();
    };
  }
  // Once. Moved, since Debian's Status counts its owners where ThreadSanitizer does not see it.
  absl::StatusOr<T> Wait() {
    MutexLock lock(state_->mutex);
    while (state_->count == 0) state_->ended.Wait(state_->mutex);
    return std::move(state_->result);
  }
  int count() {
    MutexLock lock(state_->mutex);
    return state_->count;
  }

 private:
  struct State {
    Mutex mutex;
    CondVar ended;
    int count MEMORYD_GUARDED_BY(mutex) = 0;
    absl::StatusOr<T> result MEMORYD_GUARDED_BY(mutex);
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

ChatRequest Ask(std::string text) {
  ChatRequest request;
  StoredMessage& message = request.messages.emplace_back();
  message.role = "user";
  message.parts.emplace_back().text = std::move(text);
  return request;
}

class OpenAiClientTest : public ::testing::Test {
 protected:
  OpenAiClientTest() {
    settings_.name = "m";
    settings_.model = "gemma";
    settings_.addresses = AddressRules::WithPrivate();
    options_.backoff = [this](int tries) {
      MutexLock lock(mutex_);
      backoffs_.push_back(tries);
      return std::chrono::milliseconds(0);
    };
    options_.now = [] { return std::chrono::system_clock::from_time_t(784'111'777); };
  }

  void TearDown() override {
    models_.reset();
    server_.reset();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  // Serves the replies one after the other, the last one for good.
  void Serve(std::vector<FakeReply> replies) {
    server_ =
        std::make_unique<FakeHttpServer>([this, replies = std::move(replies)](const FakeRequest&) {
          const std::size_t next = served_.fetch_add(1);
          return replies[std::min(next, replies.size() - 1)];
        });
    settings_.url = server_->url();
  }

  void MakeModels() {
    auto models = ConfiguredModels::Make({settings_}, options_);
    ASSERT_TRUE(models.ok()) << models.status();
    models_ = *std::move(models);
  }

  std::shared_ptr<ChatModel> Chat() {
    if (models_ == nullptr) MakeModels();
    auto model = models_->FindChatModel("t", "", "m");
    EXPECT_TRUE(model.ok()) << model.status();
    return *model;
  }

  std::shared_ptr<Embedder> Embed() {
    settings_.kind = ModelKind::kEmbedding;
    if (models_ == nullptr) MakeModels();
    auto model = models_->FindEmbedder("t", "", "m");
    EXPECT_TRUE(model.ok()) << model.status();
    return *model;
  }

  absl::StatusOr<ChatReply> Complete(ModelDeadline deadline = Far()) {
    Result<ChatReply> result;
    Chat()->Complete({}, Ask("Hi"), deadline, result.Done());
    return result.Wait();
  }

  absl::StatusOr<EmbedReply> Embed(std::vector<std::string> texts) {
    Result<EmbedReply> result;
    Embed()->Embed({}, EmbedPurpose::kText, std::move(texts), Far(), result.Done());
    return result.Wait();
  }

  // What one call says to one reply, without retries.
  absl::Status Lie(FakeReply reply, ModelDeadline deadline = Far()) {
    settings_.retries = 0;
    models_.reset();
    Serve({std::move(reply)});
    const absl::StatusOr<ChatReply> answer = Complete(deadline);
    EXPECT_THAT(std::string(answer.status().message()), Not(HasSubstr("127.0.0.1")));
    return answer.status();
  }

  std::string File(const std::string& content) {
    if (folder_.empty()) {
      std::string pattern = (std::filesystem::temp_directory_path() / "memoryd-XXXXXX").string();
      EXPECT_NE(mkdtemp(pattern.data()), nullptr);
      folder_ = pattern;
    }
    const std::string path = folder_ / "key";
    std::ofstream(path) << content;
    chmod(path.c_str(), 0600);
    return path;
  }

  const ModelStats& stats() {
    const ModelStats* found = nullptr;
    models_->VisitStats([&found](const std::string&, const ModelStats& one) { found = &one; });
    return *found;
  }

  std::uint64_t Ended(absl::StatusCode code) {
    return stats().calls[static_cast<std::size_t>(code)];
  }

  std::vector<int> backoffs() {
    MutexLock lock(mutex_);
    return backoffs_;
  }

  Mutex mutex_;
  std::vector<int> backoffs_ MEMORYD_GUARDED_BY(mutex_);
  std::atomic<std::size_t> served_{0};
  ModelSettings settings_;
  OpenAiClientOptions options_;
  std::unique_ptr<FakeHttpServer> server_;
  std::unique_ptr<ConfiguredModels> models_;
  std::filesystem::path folder_;
};

TEST_F(OpenAiClientTest, TheCallersTraceIsPassedOnAtEveryTry) {
  Serve({Reply(503, "busy"), Reply(200, kHello)});
  ModelCaller caller;
  caller.trace = std::make_shared<TraceContext>(
      TraceContext{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=1,b=2"});
  Result<ChatReply> result;
  Chat()->Complete(caller, Ask("Hi"), Far(), result.Done());
  ASSERT_TRUE(result.Wait().ok());
  std::vector<FakeRequest> requests = server_->requests();
  ASSERT_EQ(requests.size(), 2);
  for (FakeRequest& request : requests) {
    EXPECT_EQ(request.headers["traceparent"], caller.trace->traceparent);
    EXPECT_EQ(request.headers["tracestate"], "a=1,b=2");
  }
}

TEST_F(OpenAiClientTest, ATraceWithoutStateIsPassedOnWithoutOne) {
  Serve({Reply(200, R"({"data":[{"index":0,"embedding":[1]}]})")});
  ModelCaller caller;
  caller.trace = std::make_shared<TraceContext>(
      TraceContext{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", ""});
  Result<EmbedReply> result;
  Embed()->Embed(caller, EmbedPurpose::kText, {"Hi"}, Far(), result.Done());
  ASSERT_TRUE(result.Wait().ok());
  FakeRequest sent = server_->requests().at(0);
  EXPECT_EQ(sent.headers["traceparent"], caller.trace->traceparent);
  EXPECT_FALSE(sent.headers.contains("tracestate"));
}

TEST_F(OpenAiClientTest, ACompletionIsAskedForAndCounted) {
  Serve({Reply(200, kHello)});
  settings_.temperature = 0;
  settings_.headers = {{"X-Org", "a b"}};
  Result<ChatReply> result;
  ChatRequest request = Ask("Hi");
  request.max_tokens = 7;
  Chat()->Complete({}, std::move(request), Far(), result.Done());
  const auto reply = result.Wait();
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->text, "Hello");
  EXPECT_EQ(reply->usage, (Usage{1, 3, 2}));

  const std::vector<FakeRequest> requests = server_->requests();
  ASSERT_EQ(requests.size(), 1);
  FakeRequest sent = requests[0];
  EXPECT_EQ(sent.line, "POST /v1/chat/completions HTTP/1.1");
  EXPECT_EQ(sent.headers["content-type"], "application/json");
  EXPECT_EQ(sent.headers["x-org"], "a b");
  EXPECT_FALSE(sent.headers.contains("authorization"));
  EXPECT_FALSE(sent.headers.contains("accept-encoding"));
  EXPECT_FALSE(sent.headers.contains("expect"));
  EXPECT_FALSE(sent.headers.contains("traceparent"));
  EXPECT_FALSE(sent.headers.contains("tracestate"));
  EXPECT_EQ(Json::parse(sent.body),
            Json::parse(R"({"model":"gemma","messages":[{"role":"user","content":"Hi"}],)"
                        R"("max_tokens":7,"temperature":0.0})"));

  EXPECT_EQ(Ended(absl::StatusCode::kOk), 1);
  EXPECT_EQ(stats().attempts, 1);
  EXPECT_EQ(stats().prompt_tokens, 3);
  EXPECT_EQ(stats().completion_tokens, 2);
  EXPECT_EQ(stats().open, 0);
}

TEST_F(OpenAiClientTest, EmbeddingsComeInBatchesAndInOrder) {
  server_ = std::make_unique<FakeHttpServer>([](const FakeRequest& request) {
    const Json input = Json::parse(request.body)["input"];
    Json data = Json::array();
    // Last first.
    for (std::size_t i = input.size(); i-- > 0;) {
      data.push_back({{"index", i}, {"embedding", {1.0, std::stod(input[i].get<std::string>())}}});
    }
    return Reply(200, Json({{"data", data}, {"usage", {{"prompt_tokens", 10}}}}).dump());
  });
  settings_.url = server_->url();
  settings_.batch_size = 2;
  settings_.dimensions = 2;
  const auto reply = Embed({"0", "1", "2", "3", "4"});
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(reply->vectors.size(), 5);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_THAT(reply->vectors[i], ElementsAre(1.0F, static_cast<float>(i)));
  }
  EXPECT_EQ(reply->usage, (Usage{3, 30, 0}));
  EXPECT_EQ(server_->requests().size(), 3);
  EXPECT_EQ(server_->requests()[0].line, "POST /v1/embeddings HTTP/1.1");

  const auto none = Embed(std::vector<std::string>{});
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->vectors.empty());
  EXPECT_EQ(server_->requests().size(), 3);
}

TEST_F(OpenAiClientTest, BatchesOfDifferentSizesAreRefused) {
  Serve({Reply(200, R"({"data":[{"embedding":[1,2]}]})"),
         Reply(200, R"({"data":[{"embedding":[1,2,3]}]})")});
  settings_.batch_size = 1;
  EXPECT_TRUE(absl::IsDataLoss(Embed({"a", "b"}).status()));
}

TEST_F(OpenAiClientTest, TheKeyIsReadAnewForEachRequestAndNeverShown) {
  settings_.key_file = File(" secret-1\n");
  Serve({Reply(200, kHello), Reply(200, kHello), Reply(401, "wrong key secret-2")});
  ASSERT_TRUE(Complete().ok());
  File("secret-2");
  ASSERT_TRUE(Complete().ok());
  const absl::Status refused = Complete().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("401"));
  EXPECT_THAT(std::string(refused.message()), Not(HasSubstr("secret")));
  std::vector<FakeRequest> requests = server_->requests();
  EXPECT_EQ(requests[0].headers["authorization"], "Bearer secret-1");
  EXPECT_EQ(requests[1].headers["authorization"], "Bearer secret-2");

  for (const char* bad : {"", "\n", "two keys", "a\nX-Evil: b"}) {
    File(bad);
    const absl::Status status = Complete().status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  }
  chmod(File("secret-3").c_str(), 0644);
  const absl::Status readable = Complete().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(readable));
  EXPECT_THAT(std::string(readable.message()), Not(HasSubstr(folder_.string())));
  EXPECT_EQ(server_->requests().size(), 3);
}

TEST_F(OpenAiClientTest, FilesThatCantBeUsedAreFoundAtTheStart) {
  settings_.url = "https://h";
  settings_.key_file = "/nonexistent/key";
  EXPECT_TRUE(absl::IsInvalidArgument(ConfiguredModels::Make({settings_}).status()));
  settings_.key_file = File("a b");
  EXPECT_TRUE(absl::IsInvalidArgument(ConfiguredModels::Make({settings_}).status()));
  settings_.key_file = File("a");
  EXPECT_TRUE(ConfiguredModels::Make({settings_}).ok());
  settings_.ca_file = "/nonexistent/ca";
  EXPECT_TRUE(absl::IsInvalidArgument(ConfiguredModels::Make({settings_}).status()));
}

TEST_F(OpenAiClientTest, WhatMayPassIsTriedAgain) {
  FakeReply cut;
  cut.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"choices\"";
  cut.close = true;
  FakeReply silent;
  silent.close = true;
  settings_.retries = 4;
  Serve({Reply(500, ""), Reply(429, "slow down"), cut, silent, Reply(200, kHello)});
  const auto reply = Complete();
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->usage, (Usage{5, 3, 2}));
  EXPECT_THAT(backoffs(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(stats().retries, 4);
  EXPECT_EQ(stats().attempts, 5);
}

TEST_F(OpenAiClientTest, TriesAreBounded) {
  Serve({Reply(503, "")});
  const absl::Status status = Complete().status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("model m: it answered HTTP 503"));
  EXPECT_EQ(server_->requests().size(), 3);
}

TEST_F(OpenAiClientTest, EveryBatchHasItsOwnTries) {
  const FakeReply good = Reply(200, R"({"data":[{"embedding":[1]}]})");
  settings_.retries = 1;
  settings_.batch_size = 1;
  Serve({Reply(500, ""), good, Reply(500, ""), good});
  const auto reply = Embed({"a", "b"});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->usage.calls, 4);
}

TEST_F(OpenAiClientTest, RefusalsAreNotTriedAgain) {
  for (const int code : {301, 302, 307, 308, 400, 401, 403, 404, 413, 422}) {
    models_.reset();
    Serve({Reply(code, "body-of-it", "Location: http://127.0.0.1:1/elsewhere\r\n")});
    const absl::Status status = Complete().status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << code << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(code)));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("body-of-it")));
    EXPECT_EQ(server_->requests().size(), 1) << code;
  }
}

TEST_F(OpenAiClientTest, NoTryIsMadeWhenTheModelWantsMoreTimeThanThereIs) {
  // 100 s, more than a call waits for; the same as a date; and a minute, past the deadline.
  for (const char* header :
       {"Retry-After: 100\r\n", "Retry-After: Sun, 06 Nov 1994 08:51:17 GMT\r\n",
        "retry-after:60\r\n"}) {
    models_.reset();
    Serve({Reply(429, "", header), Reply(200, kHello)});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(50);
    EXPECT_TRUE(absl::IsUnavailable(Complete(deadline).status())) << header;
    EXPECT_EQ(server_->requests().size(), 1) << header;
    served_ = 0;
  }
  // A time that is over.
  models_.reset();
  Serve({Reply(429, "", "Retry-After: Sun, 06 Nov 1994 08:49:00 GMT\r\n"), Reply(200, kHello)});
  EXPECT_TRUE(Complete().ok());
}

TEST_F(OpenAiClientTest, AServerThatIsNotThereIsTriedAgain) {
  Serve({Reply(200, kHello)});
  server_.reset();
  EXPECT_TRUE(absl::IsUnavailable(Complete().status()));
  EXPECT_THAT(backoffs(), ElementsAre(1, 2));
  // Nothing of it reached a model.
  EXPECT_EQ(stats().attempts, 0);
}

TEST_F(OpenAiClientTest, LiesAreSeenThrough) {
  using S = absl::StatusCode;
  const auto lie = [this](FakeReply reply) { return Lie(std::move(reply)).code(); };
  EXPECT_EQ(lie(Reply(200, "{\"choices\":[{\"mess")), S::kDataLoss);
  EXPECT_EQ(lie(Reply(200, "")), S::kDataLoss);
  EXPECT_EQ(lie(Reply(204, "")), S::kDataLoss);
  EXPECT_EQ(lie(Reply(200, "{\"choices\":[]}")), S::kDataLoss);
  EXPECT_EQ(lie(Reply(200, "<html>")), S::kDataLoss);
  FakeReply not_http;
  not_http.bytes = "SSH-2.0-OpenSSH_9.2\r\n";
  not_http.close = true;
  EXPECT_EQ(lie(not_http), S::kDataLoss);
  // It says less than it sends: the rest is not looked at; and more than it sends.
  FakeReply less;
  less.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + std::string(kHello);
  less.close = true;
  EXPECT_EQ(lie(less), S::kDataLoss);
  FakeReply more;
  more.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + std::string(kHello);
  more.close = true;
  EXPECT_EQ(lie(more), S::kUnavailable);
  // Compressed though nobody asked for it.
  EXPECT_EQ(lie(Reply(200, "\x1f\x8b\x08", "Content-Encoding: gzip\r\n")), S::kDataLoss);
}

TEST_F(OpenAiClientTest, RequestsAndAnswersTakeMemory) {
  MemoryBudget budget(1'000'000);
  options_.memory = &budget;
  Serve({Reply(200, kHello)});
  ASSERT_TRUE(Complete().ok());
  const auto ask = [this](std::size_t bytes) {
    Result<ChatReply> result;
    ModelCaller caller;
    caller.tenant = "t";
    Chat()->Complete(caller, Ask(std::string(bytes, 'x')), Far(), result.Done());
    return result.Wait().status();
  };
  EXPECT_TRUE(ask(100'000).ok());
  EXPECT_EQ(ErrorReason(ask(200'000)), "MODEL_REQUEST_TOO_LARGE");
  {
    const MemoryBudget::Hold other = budget.Count("t", MemoryUse::kRequests, 400'000);
    EXPECT_EQ(ErrorReason(ask(100'000)), "MEMORY_SHORT");
    EXPECT_TRUE(ask(10'000).ok());
  }
  models_.reset();
  EXPECT_EQ(budget.held(), 0);
  FakeReply endless;
  endless.bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  endless.endless = "1000\r\n" + std::string(4096, ' ') + "\r\n";
  settings_.max_answer_bytes = 100'000'000;
  EXPECT_TRUE(absl::IsResourceExhausted(Lie(endless)));
  models_.reset();
  EXPECT_EQ(budget.held(), 0);
}

TEST_F(OpenAiClientTest, AnAnswerWithoutEndEndsAtTheLimit) {
  settings_.max_answer_bytes = 100'000;
  FakeReply announced;
  announced.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n";
  announced.endless = std::string(65536, 'x');
  EXPECT_TRUE(absl::IsResourceExhausted(Lie(announced)));
  FakeReply chunked;
  chunked.bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  chunked.endless = "1000\r\n" + std::string(4096, ' ') + "\r\n";
  EXPECT_TRUE(absl::IsResourceExhausted(Lie(chunked)));
  FakeReply headers;
  headers.bytes = "HTTP/1.1 200 OK\r\n";
  headers.endless = "X: " + std::string(4096, 'y') + "\r\n";
  EXPECT_TRUE(absl::IsResourceExhausted(Lie(headers)));
  // What a refusal says does not matter, nor how long it is.
  FakeReply refusal;
  refusal.bytes = "HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n";
  refusal.endless = chunked.endless;
  EXPECT_TRUE(absl::IsFailedPrecondition(Lie(refusal)));
}

TEST_F(OpenAiClientTest, ALateAnswerEndsByTheDeadline) {
  FakeReply silent;
  silent.hold = true;
  EXPECT_TRUE(absl::IsDeadlineExceeded(Lie(silent, Near())));
  FakeReply half;
  half.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{";
  half.hold = true;
  EXPECT_TRUE(absl::IsDeadlineExceeded(Lie(half, Near())));
  // One attempt has its own bound.
  settings_.timeout = std::chrono::milliseconds(100);
  EXPECT_TRUE(absl::IsDeadlineExceeded(Lie(silent, ModelDeadline::max())));
  // Over before it begins.
  EXPECT_TRUE(absl::IsDeadlineExceeded(Complete(ModelDeadline::min()).status()));
  EXPECT_EQ(server_->requests().size(), 1);
}

TEST_F(OpenAiClientTest, PrivateAddressesMustBeListed) {
  Serve({Reply(200, kHello)});
  settings_.addresses = AddressRules();
  const absl::Status status = Complete().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("allow_private"));
  EXPECT_EQ(server_->requests().size(), 0);
  EXPECT_TRUE(backoffs().empty());

  models_.reset();
  ASSERT_TRUE(settings_.addresses.Allow("127.0.0.0/8").ok());
  EXPECT_TRUE(Complete().ok());
  // By name as well.
  models_.reset();
  settings_.url = fmt::format("http://localhost:{}/v1", server_->port());
  EXPECT_TRUE(Complete().ok());
  models_.reset();
  settings_.addresses = AddressRules();
  EXPECT_TRUE(absl::IsFailedPrecondition(Complete().status()));
}

TEST_F(OpenAiClientTest, AConnectionOfAnotherModelLendsNobodyItsAddress) {
  Serve({Reply(200, kHello)});
  ModelSettings strict = settings_;
  strict.name = "strict";
  strict.addresses = AddressRules();
  auto models = ConfiguredModels::Make({settings_, strict}, options_);
  ASSERT_TRUE(models.ok());
  models_ = *std::move(models);
  ASSERT_TRUE(Complete().ok());
  Result<ChatReply> result;
  (*models_->FindChatModel("t", "", "strict"))->Complete({}, Ask("Hi"), Far(), result.Done());
  EXPECT_TRUE(absl::IsFailedPrecondition(result.Wait().status()));
  EXPECT_EQ(server_->requests().size(), 1);
}

TEST_F(OpenAiClientTest, ProxiesOfTheEnvironmentAreIgnored) {
  Serve({Reply(200, kHello)});
  for (const char* variable : {"http_proxy", "all_proxy", "ALL_PROXY"}) {
    setenv(variable, "http://127.0.0.1:1", 1);
  }
  EXPECT_TRUE(Complete().ok());
  for (const char* variable : {"http_proxy", "all_proxy", "ALL_PROXY"}) unsetenv(variable);
}

TEST_F(OpenAiClientTest, TheProxyOfTheSettingsIsUsed) {
  Serve({Reply(200, kHello)});
  settings_.url = "http://model.invalid/v1";
  settings_.proxy = fmt::format("http://127.0.0.1:{}", server_->port());
  ASSERT_TRUE(Complete().ok());
  EXPECT_EQ(server_->requests()[0].line, "POST http://model.invalid/v1/chat/completions HTTP/1.1");
}

TEST_F(OpenAiClientTest, OnlyATrustedCertificateOfTheHostIsTakenAsSuch) {
  const FakeCertificate certificate;
  server_ = std::make_unique<FakeHttpServer>([](const FakeRequest&) { return Reply(200, kHello); },
                                             certificate.tls());
  settings_.url = fmt::format("https://localhost:{}/v1", server_->port());
  settings_.key_file = File("secret");
  const absl::Status unknown = Complete().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(unknown)) << unknown;
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("certificate"));

  models_.reset();
  settings_.ca_file = folder_ / "ca.pem";
  std::ofstream(settings_.ca_file) << certificate.pem();
  EXPECT_TRUE(Complete().ok());

  // It is not for the address.
  models_.reset();
  settings_.url = fmt::format("https://127.0.0.1:{}/v1", server_->port());
  EXPECT_TRUE(absl::IsFailedPrecondition(Complete().status()));
  EXPECT_EQ(server_->requests().size(), 1);
  EXPECT_TRUE(backoffs().empty());

  models_.reset();
  settings_.url = fmt::format("http://localhost:{}/v1", server_->port());
  EXPECT_FALSE(Complete().ok());
  // Gone before the certificate that it shows.
  models_.reset();
  server_.reset();
}

TEST_F(OpenAiClientTest, CallsAreBounded) {
  FakeReply silent;
  silent.hold = true;
  Serve({silent});
  settings_.max_calls = 2;
  settings_.max_waiting = 1;
  const std::shared_ptr<ChatModel> model = Chat();
  std::vector<Result<ChatReply>> results(3);
  for (auto& result : results) model->Complete({}, Ask("Hi"), Far(), result.Done());
  const absl::Status refused = Complete().status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  server_->WaitForRequests(2);
  EXPECT_EQ(server_->requests().size(), 2);
  EXPECT_EQ(stats().open, 3);
}

TEST_F(OpenAiClientTest, AWaitingCallGetsItsTurn) {
  server_ = std::make_unique<FakeHttpServer>([](const FakeRequest&) { return Reply(200, kHello); });
  settings_.url = server_->url();
  settings_.max_calls = 1;
  const std::shared_ptr<ChatModel> model = Chat();
  std::vector<Result<ChatReply>> results(200);
  for (auto& result : results) model->Complete({}, Ask("Hi"), Far(), result.Done());
  for (auto& result : results) EXPECT_TRUE(result.Wait().ok());
  EXPECT_EQ(stats().open, 0);
}

TEST_F(OpenAiClientTest, AWaitingCallEndsByItsDeadline) {
  FakeReply silent;
  silent.hold = true;
  Serve({silent});
  settings_.max_calls = 1;
  Result<ChatReply> first;
  Chat()->Complete({}, Ask("Hi"), Far(), first.Done());
  EXPECT_TRUE(absl::IsDeadlineExceeded(Complete(Near()).status()));
  EXPECT_EQ(first.count(), 0);
}

TEST_F(OpenAiClientTest, EveryCallEndsOnceWhenTheServerStops) {
  FakeReply silent;
  silent.hold = true;
  Serve({Reply(500, ""), silent});
  settings_.max_calls = 8;
  // One of them waits for its next try.
  options_.backoff = [](int) { return std::chrono::minutes(1); };
  const std::shared_ptr<ChatModel> model = Chat();
  std::vector<Result<ChatReply>> results(40);
  for (auto& result : results) model->Complete({}, Ask("Hi"), ModelDeadline::max(), result.Done());
  server_->WaitForRequests(8);
  models_.reset();
  for (auto& result : results) {
    ASSERT_EQ(result.count(), 1);
    EXPECT_TRUE(absl::IsUnavailable(result.Wait().status()));
  }
  // Blocks may hold it for longer.
  Result<ChatReply> late;
  model->Complete({}, Ask("Hi"), Far(), late.Done());
  EXPECT_EQ(late.count(), 1);
  EXPECT_TRUE(absl::IsUnavailable(late.Wait().status()));
}

TEST_F(OpenAiClientTest, CallsFromManyThreadsEndOnceWhileTheServerStops) {
  Serve({Reply(200, kHello)});
  settings_.max_calls = 4;
  settings_.max_waiting = 10'000;
  const std::shared_ptr<ChatModel> model = Chat();
  constexpr std::size_t kCalls = 100;
  std::vector<std::vector<Result<ChatReply>>> results(4);
  std::vector<std::thread> threads;
  for (auto& mine : results) {
    threads.emplace_back([&mine, &model] {
      for (std::size_t i = 0; i < kCalls; ++i) {
        Result<ChatReply> result;
        model->Complete({}, Ask("Hi"), Far(), result.Done());
        mine.push_back(result);
      }
    });
  }
  server_->WaitForRequests(10);
  models_.reset();
  for (std::thread& thread : threads) thread.join();
  for (auto& mine : results) {
    ASSERT_EQ(mine.size(), kCalls);
    for (auto& result : mine) EXPECT_EQ(result.count(), 1);
  }
}

TEST_F(OpenAiClientTest, OnlyTheServersOwnModelsAreFound) {
  settings_.url = "https://h";
  MakeModels();
  EXPECT_TRUE(absl::IsNotFound(models_->FindChatModel("t", "", "other").status()));
  EXPECT_TRUE(absl::IsNotFound(models_->FindEmbedder("t", "", "m").status()));
  const absl::Status worker = models_->FindChatModel("t", "w", "m").status();
  EXPECT_TRUE(absl::IsUnavailable(worker));
  EXPECT_EQ(ErrorReason(worker), "WORKER_ELSEWHERE");
  EXPECT_EQ(ErrorReason(models_->FindEmbedder("t", "w", "m").status()), "WORKER_ELSEWHERE");
}

}  // namespace
}  // namespace memoryd
