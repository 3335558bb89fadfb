#include "core/llm/openai_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/histogram.h"
#include "core/base/memory_budget.h"
#include "core/base/secret_file.h"
#include "core/base/status_macros.h"
#include "core/llm/http_client.h"
#include "core/llm/model.h"
#include "core/llm/model_settings.h"
#include "core/llm/openai_protocol.h"
#include "core/llm/retry.h"

namespace memoryd {
namespace {

using Clock = std::chrono::steady_clock;

// Whoever wants to be left alone for longer is left to the caller's own retries.
constexpr std::chrono::seconds kLongestWait(60);

constexpr char kStops[] = "the server stops";
// While a request is made: what it holds as values, and as text, which grows by doubling.
constexpr std::int64_t kBodyCopies = 3;

bool IsRetried(int code) { return code == 429 || code >= 500; }

class ChatCall final : public OpenAiClient::Call {
 public:
  ChatCall(std::string request, MemoryBudget::Hold memory, ChatModel::Done done)
      : request_(std::move(request)), memory_(std::move(memory)), done_(std::move(done)) {}

  std::string Body() override {
    memory_.Release();
    return std::move(request_);
  }

  absl::Status Take(std::string_view answer, bool&) override {
    MEMORYD_ASSIGN_OR_RETURN(ChatReply reply, ParseChatAnswer(answer));
    reply_ = std::move(reply);
    taken_ += reply_.usage;
    return absl::OkStatus();
  }

  void End(absl::Status status, const Usage& usage) override {
    if (!status.ok()) return done_(std::move(status));
    reply_.usage = usage;
    done_(std::move(reply_));
  }

 private:
  std::string request_;
  MemoryBudget::Hold memory_;
  ChatReply reply_;
  const ChatModel::Done done_;
};

// As many requests, one after the other, as the model's batch size asks for.
class EmbedCall final : public OpenAiClient::Call {
 public:
  EmbedCall(std::shared_ptr<OpenAiClient> client, EmbedPurpose purpose,
            std::vector<std::string> texts, Embedder::Done done)
      : client_(std::move(client)),
        purpose_(purpose),
        texts_(std::move(texts)),
        done_(std::move(done)) {}

  std::string Body() override { return EmbeddingBody(client_->settings(), purpose_, Batch()); }

  absl::Status Take(std::string_view answer, bool& more) override {
    std::size_t dimensions = static_cast<std::size_t>(client_->settings().dimensions);
    if (!reply_.vectors.empty()) dimensions = reply_.vectors.front().size();
    MEMORYD_ASSIGN_OR_RETURN(EmbedReply batch,
                             ParseEmbeddingAnswer(answer, Batch().size(), dimensions));
    for (std::vector<float>& vector : batch.vectors) reply_.vectors.push_back(std::move(vector));
    taken_ += batch.usage;
    more = reply_.vectors.size() < texts_.size();
    return absl::OkStatus();
  }

  void End(absl::Status status, const Usage& usage) override {
    if (!status.ok()) return done_(std::move(status));
    reply_.usage = usage;
    reply_.model = client_->settings().model;
    done_(std::move(reply_));
  }

 private:
  std::span<const std::string> Batch() const {
    const std::size_t begin = reply_.vectors.size();
    const auto most = static_cast<std::size_t>(client_->settings().batch_size);
    return std::span(texts_).subspan(begin, std::min(most, texts_.size() - begin));
  }

  const std::shared_ptr<OpenAiClient> client_;
  const EmbedPurpose purpose_;
  const std::vector<std::string> texts_;
  EmbedReply reply_;
  const Embedder::Done done_;
};

class OpenAiChatModel final : public ChatModel {
 public:
  explicit OpenAiChatModel(std::shared_ptr<OpenAiClient> client) : client_(std::move(client)) {}

  void Complete(const ModelCaller& caller, ChatRequest request, ModelDeadline deadline,
                Done done) override {
    // Before it is made, since that takes more than what is sent in the end.
    const auto bytes = static_cast<std::int64_t>(ChatBodyBytes(request));
    auto memory = client_->TakeMemory(caller, kBodyCopies * bytes);
    if (!memory.ok()) return done(std::move(memory).status());
    std::string body = ChatBody(client_->settings(), request);
    request = {};
    memory->Resize(static_cast<std::int64_t>(body.size()));
    client_->Start(std::make_shared<ChatCall>(std::move(body), *std::move(memory), std::move(done)),
                   deadline, caller);
  }

 private:
  const std::shared_ptr<OpenAiClient> client_;
};

class OpenAiEmbedder final : public Embedder {
 public:
  explicit OpenAiEmbedder(std::shared_ptr<OpenAiClient> client) : client_(std::move(client)) {}

  void Embed(const ModelCaller& caller, EmbedPurpose purpose, std::vector<std::string> texts,
             ModelDeadline deadline, Done done) override {
    if (texts.empty()) return done(EmbedReply());
    client_->Start(std::make_shared<EmbedCall>(client_, purpose, std::move(texts), std::move(done)),
                   deadline, caller);
  }

 private:
  const std::shared_ptr<OpenAiClient> client_;
};

}  // namespace

OpenAiClient::OpenAiClient(ModelSettings settings, std::shared_ptr<HttpClient> http,
                           OpenAiClientOptions options)
    : settings_(std::move(settings)),
      http_(std::move(http)),
      options_(std::move(options)),
      url_(settings_.url +
           (settings_.kind == ModelKind::kChat ? "/chat/completions" : "/embeddings")) {}

absl::StatusOr<MemoryBudget::Hold> OpenAiClient::TakeMemory(const ModelCaller& caller,
                                                            std::int64_t bytes) {
  if (options_.memory == nullptr) return MemoryBudget::Hold();
  const std::int64_t most = options_.memory->MostOfTenant(MemoryUse::kAnswers);
  if (options_.memory->limit() > 0 && bytes > most) {
    return Error(absl::StatusCode::kResourceExhausted, "MODEL_REQUEST_TOO_LARGE",
                 fmt::format("model {}: to make its request takes {} MiB of memory; a tenant can "
                             "have {} MiB of it",
                             settings_.name, (bytes >> 20) + 1, most >> 20));
  }
  return options_.memory->Take(caller.tenant, MemoryUse::kAnswers, bytes);
}

MemoryBudget::Hold OpenAiClient::Count(const Call& call, std::size_t bytes) {
  if (options_.memory == nullptr) return {};
  return options_.memory->Count(call.tenant_, MemoryUse::kAnswers,
                                static_cast<std::int64_t>(bytes));
}

void OpenAiClient::Start(std::shared_ptr<Call> call, ModelDeadline deadline,
                         const ModelCaller& caller) {
  call->deadline_ = deadline;
  call->tenant_ = caller.tenant;
  call->trace_ = caller.trace;
  call->begin_ = Clock::now();
  // Counted before it is queued, so that callers of any speed can't fill the queue beyond bounds.
  if (stats_.open.fetch_add(1) >= settings_.max_calls + settings_.max_waiting) {
    return End(call, absl::ResourceExhaustedError("too many calls wait for it"));
  }
  auto admit = [self = shared_from_this(), call] { self->Admit(call); };
  if (!http_->Run(std::move(admit))) End(call, absl::UnavailableError(kStops));
}

void OpenAiClient::Admit(const std::shared_ptr<Call>& call) {
  if (running_ < settings_.max_calls) {
    ++running_;
    return Try(call);
  }
  waiting_.push_back(call);
  call->timer_ = http_->RunAt(call->deadline_, [self = shared_from_this(), call] {
    std::erase(self->waiting_, call);
    self->End(call, self->http_->stopping()
                        ? absl::UnavailableError(kStops)
                        : absl::DeadlineExceededError("other calls took all of the time"));
  });
}

void OpenAiClient::Try(const std::shared_ptr<Call>& call) {
  if (http_->stopping()) return Finish(call, absl::UnavailableError(kStops));
  const auto now = Clock::now();
  if (now >= call->deadline_) {
    return Finish(call, absl::DeadlineExceededError("it has not answered in time"));
  }
  if (call->tries_ == 0) {
    call->body_ = std::make_shared<const std::string>(call->Body());
    call->body_memory_ = Count(*call, call->body_->size());
  }
  ++call->tries_;
  HttpRequest request;
  request.url = url_;
  request.body = call->body_;
  request.connect_timeout = settings_.connect_timeout;
  request.deadline = std::min(call->deadline_, now + settings_.timeout);
  request.max_answer_bytes = settings_.max_answer_bytes != 0
                                 ? settings_.max_answer_bytes
                                 : DefaultMaxAnswerBytes(settings_.kind);
  request.addresses = settings_.addresses;
  request.memory = Count(*call, 0);
  request.proxy = settings_.proxy;
  request.ca_file = settings_.ca_file;
  for (const auto& [name, value] : settings_.headers) {
    request.headers.push_back(fmt::format("{}: {}", name, value));
  }
  if (call->trace_ != nullptr) {
    request.headers.push_back("traceparent: " + call->trace_->traceparent);
    if (!call->trace_->tracestate.empty()) {
      request.headers.push_back("tracestate: " + call->trace_->tracestate);
    }
  }
  if (absl::Status status = AddKey(request); !status.ok()) return Finish(call, std::move(status));
  http_->Post(std::move(request), [self = shared_from_this(), call](HttpAnswer answer) {
    self->OnAnswer(call, std::move(answer));
  });
}

void OpenAiClient::OnAnswer(const std::shared_ptr<Call>& call, HttpAnswer answer) {
  if (answer.sent) {
    ++call->sent_;
    Increment(stats_.attempts);
  }
  absl::Status status = StatusOf(answer);
  if (status.ok()) {
    bool more = false;
    status = call->Take(answer.body, more);
    call->reply_memory_ =
        Count(*call, static_cast<std::size_t>(call->reply_memory_.bytes()) + answer.body.size());
    answer = HttpAnswer();
    if (status.ok() && more) {
      call->tries_ = 0;
      return Try(call);
    }
    return Finish(call, std::move(status));
  }
  const bool is_retried =
      answer.status.ok() ? IsRetried(answer.code) : absl::IsUnavailable(answer.status);
  if (is_retried && Retry(call, answer.retry_after)) return;
  answer = HttpAnswer();
  Finish(call, std::move(status));
}

bool OpenAiClient::Retry(const std::shared_ptr<Call>& call, const std::string& retry_after) {
  if (call->tries_ > settings_.retries || http_->stopping()) return false;
  std::chrono::milliseconds wait = options_.backoff(call->tries_);
  if (const auto asked = ParseRetryAfter(retry_after, options_.now()); asked.has_value()) {
    if (*asked > kLongestWait) return false;
    wait = std::max<std::chrono::milliseconds>(wait, *asked);
  }
  const auto time = Clock::now() + wait;
  if (time >= call->deadline_) return false;
  Increment(stats_.retries);
  http_->RunAt(time, [self = shared_from_this(), call] { self->Try(call); });
  return true;
}

void OpenAiClient::Finish(const std::shared_ptr<Call>& call, absl::Status status) {
  --running_;
  End(call, std::move(status));
  if (waiting_.empty() || running_ >= settings_.max_calls) return;
  const std::shared_ptr<Call> next = std::move(waiting_.front());
  waiting_.pop_front();
  http_->Cancel(next->timer_);
  ++running_;
  // Not from within: a queue of calls that all fail at once would be as deep a recursion.
  http_->RunAt(Clock::now(), [self = shared_from_this(), next] { self->Try(next); });
}

void OpenAiClient::End(const std::shared_ptr<Call>& call, absl::Status status) {
  Usage usage = call->taken_;
  usage.calls = call->sent_;
  Increment(stats_.calls[static_cast<std::size_t>(status.raw_code())]);
  Increment(stats_.prompt_tokens, static_cast<std::uint64_t>(usage.prompt_tokens));
  Increment(stats_.completion_tokens, static_cast<std::uint64_t>(usage.completion_tokens));
  stats_.seconds.Observe(Clock::now() - call->begin_);
  stats_.open.fetch_sub(1);
  // The request's memory is given back before the caller goes on: it may ask again at once. That of
  // the answer stays until the caller has taken it in.
  call->body_.reset();
  call->body_memory_.Release();
  call->End(Named(status), usage);
}

absl::Status OpenAiClient::StatusOf(const HttpAnswer& answer) const {
  if (absl::IsCancelled(answer.status)) return absl::UnavailableError(kStops);
  if (!answer.status.ok()) return answer.status;
  const int code = answer.code;
  if (code >= 200 && code < 300) return absl::OkStatus();
  if (code >= 300 && code < 400) {
    return absl::FailedPreconditionError(
        fmt::format("it answered with a redirect (HTTP {}), which is not followed", code));
  }
  if (code == 408 || IsRetried(code)) {
    return absl::UnavailableError(fmt::format("it answered HTTP {}", code));
  }
  if (code >= 400) {
    return absl::FailedPreconditionError(fmt::format("it answered HTTP {}", code));
  }
  return absl::DataLossError("its answer is not HTTP");
}

absl::Status OpenAiClient::Named(const absl::Status& status) const {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      fmt::format("model {}: {}", settings_.name, std::string(status.message())));
}

absl::Status OpenAiClient::AddKey(HttpRequest& request) const {
  if (settings_.key_file.empty()) return absl::OkStatus();
  // Read each time: a file of a few bytes, and a key that was replaced counts at once. What is
  // wrong with it is said at the start; the path is no business of those who see this error.
  const absl::StatusOr<std::string> content = ReadSecretFile(settings_.key_file);
  if (!content.ok()) return absl::FailedPreconditionError("its key file can't be read");
  MEMORYD_ASSIGN_OR_RETURN(const std::string key, ModelKey(*content));
  request.headers.push_back("Authorization: Bearer " + key);
  return absl::OkStatus();
}

std::shared_ptr<ChatModel> MakeOpenAiChatModel(std::shared_ptr<OpenAiClient> client) {
  return std::make_shared<OpenAiChatModel>(std::move(client));
}

std::shared_ptr<Embedder> MakeOpenAiEmbedder(std::shared_ptr<OpenAiClient> client) {
  return std::make_shared<OpenAiEmbedder>(std::move(client));
}

absl::StatusOr<std::string> ModelKey(std::string_view content) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = content.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) {
    return absl::FailedPreconditionError("its key file is empty");
  }
  const std::string_view key = content.substr(begin, content.find_last_not_of(kSpace) - begin + 1);
  if (!std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 0x7F; })) {
    return absl::FailedPreconditionError("its key file must hold one key and nothing else");
  }
  return std::string(key);
}

}  // namespace memoryd
