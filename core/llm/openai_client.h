// A model behind OpenAI's API over HTTP.
#ifndef MEMORYD_CORE_LLM_OPENAI_CLIENT_H_
#define MEMORYD_CORE_LLM_OPENAI_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "core/llm/http_client.h"
#include "core/llm/model.h"
#include "core/llm/model_settings.h"
#include "core/llm/model_stats.h"
#include "core/llm/retry.h"

namespace memoryd {

// What the tests replace.
struct OpenAiClientOptions {
  Backoff backoff;
  std::function<std::chrono::system_clock::time_point()> now = [] {
    return std::chrono::system_clock::now();
  };
  // Counts requests and answers, and refuses those that it has no room for; must outlive the
  // clients. Null: none.
  MemoryBudget* memory = nullptr;
};

// The calls of one model, of either kind. Bounds them, retries them, and gives each its end exactly
// once, also when the HttpClient stops.
class OpenAiClient : public std::enable_shared_from_this<OpenAiClient> {
 public:
  // A call on its way: what to send, and whom to tell.
  class Call {
   public:
    virtual ~Call() = default;
    // What to send next.
    virtual std::string Body() = 0;
    // Takes the answer to it. `more` is set when there is something left to send.
    virtual absl::Status Take(std::string_view answer, bool& more) = 0;
    // The end.
    virtual void End(absl::Status status, const Usage& usage) = 0;

   protected:
    Usage taken_;  // What the answers say they took, without the number of calls.

   private:
    friend class OpenAiClient;

    ModelDeadline deadline_;
    std::string tenant_;
    TracePtr trace_;
    std::chrono::steady_clock::time_point begin_;
    std::int64_t sent_ = 0;                    // Requests that reached the model.
    int tries_ = 0;                            // Of what is being sent.
    std::shared_ptr<const std::string> body_;  // Kept for the next try.
    MemoryBudget::Hold body_memory_;
    MemoryBudget::Hold reply_memory_;  // Of what the answers so far have brought.
    HttpClient::TimerId timer_;
  };

  // `http` is shared by the models of a server.
  OpenAiClient(ModelSettings settings, std::shared_ptr<HttpClient> http,
               OpenAiClientOptions options);

  // Any thread.
  void Start(std::shared_ptr<Call> call, ModelDeadline deadline, const ModelCaller& caller);
  // Room for what is to be sent for the caller; none where nothing is counted.
  absl::StatusOr<MemoryBudget::Hold> TakeMemory(const ModelCaller& caller, std::int64_t bytes);

  const ModelSettings& settings() const { return settings_; }
  const ModelStats& stats() const { return stats_; }

 private:
  MemoryBudget::Hold Count(const Call& call, std::size_t bytes);
  // All but Start() and End() run on the thread of `http_`.
  void Admit(const std::shared_ptr<Call>& call);
  void Try(const std::shared_ptr<Call>& call);
  void OnAnswer(const std::shared_ptr<Call>& call, HttpAnswer answer);
  // False when the call has to end with its error.
  bool Retry(const std::shared_ptr<Call>& call, const std::string& retry_after);
  // Of a call that runs; then the next one may.
  void Finish(const std::shared_ptr<Call>& call, absl::Status status);
  // Counts the call and tells its caller.
  void End(const std::shared_ptr<Call>& call, absl::Status status);

  absl::Status StatusOf(const HttpAnswer& answer) const;
  // The status with the model's name before its words.
  absl::Status Named(const absl::Status& status) const;
  absl::Status AddKey(HttpRequest& request) const;

  const ModelSettings settings_;
  const std::shared_ptr<HttpClient> http_;
  const OpenAiClientOptions options_;
  const std::string url_;
  ModelStats stats_;
  int running_ = 0;
  std::deque<std::shared_ptr<Call>> waiting_;
};

// `client` is of the kind kChat.
std::shared_ptr<ChatModel> MakeOpenAiChatModel(std::shared_ptr<OpenAiClient> client);
// `client` is of the kind kEmbedding.
std::shared_ptr<Embedder> MakeOpenAiEmbedder(std::shared_ptr<OpenAiClient> client);

// The key in `content`, the file of a setting: without white space around it. FAILED_PRECONDITION
// for what can't stand in a header.
absl::StatusOr<std::string> ModelKey(std::string_view content);

}  // namespace memoryd

#endif  // MEMORYD_CORE_LLM_OPENAI_CLIENT_H_
