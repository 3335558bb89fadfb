// Models that blocks call: chat and embeddings. Implementations: an HTTP endpoint
// (openai_client.h), the agent's own process (a worker).
#ifndef MEMORYD_CORE_LLM_MODEL_H_
#define MEMORYD_CORE_LLM_MODEL_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/model/body_reader.h"
#include "core/model/job.h"
#include "core/model/trace_context.h"
#include "core/model/usage_count.h"

namespace memoryd {

using ModelDeadline = std::chrono::steady_clock::time_point;

// A model by name, and the worker that serves it; empty: the server itself.
struct ModelName {
  std::string worker;
  std::string model;
};

// On whose behalf a model is called; for limits, counts and the log.
struct ModelCaller {
  std::string tenant;
  std::string session;
  std::string block;
  std::string job_id;  // Empty outside a job.
  // Counts the answers of the job's attempt, or of the call; may be null.
  std::shared_ptr<UsageCount> usage = nullptr;
  // Of the call that asks, or made the job; the model is told of it. Null for none.
  TracePtr trace = nullptr;
};

struct ChatRequest {
  // Each a message as stored, or one that a block made.
  std::vector<StoredMessage> messages;
  // The most tokens of the answer; 0: the model's own limit.
  std::int64_t max_tokens = 0;
};

struct ChatReply {
  // The answer alone, as the model wrote it: what its server says apart, as `reasoning_content` and
  // `refusal`, is left out. "" when the model said nothing.
  std::string text;
  Usage usage;
  // Why the answer ends, as the model's server says: `stop`, `length` … "" when it does not say.
  std::string finish_reason = {};
};

// Every method may be called from any thread and returns at once; `done` runs exactly once, on any
// thread, at the latest shortly after the deadline, and must not block. Errors:
//   UNAVAILABLE          unreachable, overloaded (429, 5xx) or cut off; worth another try
//   DEADLINE_EXCEEDED    no answer in time
//   RESOURCE_EXHAUSTED   the answer is larger than allowed, or too many calls wait
//   FAILED_PRECONDITION  refused (400, 401, 403, 404, a redirect): another try is of no use before
//                        somebody mends the configuration
//   INVALID_ARGUMENT     what was sent can't be expressed to this model
//   DATA_LOSS            an answer that is not what the protocol says
// A failed call's message never holds a key or a body.
class ChatModel {
 public:
  using Done = std::function<void(absl::StatusOr<ChatReply>)>;

  virtual ~ChatModel() = default;
  virtual void Complete(const ModelCaller& caller, ChatRequest request, ModelDeadline deadline,
                        Done done) = 0;
};

// What is embedded: some models tell the two apart.
enum class EmbedPurpose { kText, kQuery };

// Numbers of an embedding at most: what many messages have is kept in memory.
inline constexpr std::size_t kMaxEmbeddingSize = 8192;

struct EmbedReply {
  // One for each text, in order; all of one size, at least 1, every number finite.
  std::vector<std::vector<float>> vectors;
  Usage usage;
  // Which model made them, as far as the embedder says: those of two models must not be compared.
  // "" when it does not.
  std::string model = {};
};

// As ChatModel.
class Embedder {
 public:
  using Done = std::function<void(absl::StatusOr<EmbedReply>)>;

  virtual ~Embedder() = default;
  virtual void Embed(const ModelCaller& caller, EmbedPurpose purpose,
                     std::vector<std::string> texts, ModelDeadline deadline, Done done) = 0;
};

// The models that there are, by name. Any thread.
class ModelDirectory {
 public:
  virtual ~ModelDirectory() = default;

  // `worker` names the worker of the tenant that serves the model; empty: the server's own models.
  // NOT_FOUND when the server has no such model; UNAVAILABLE `WORKER_ELSEWHERE` when no such worker
  // is attached to this server.
  virtual absl::StatusOr<std::shared_ptr<ChatModel>> FindChatModel(std::string_view tenant,
                                                                   std::string_view worker,
                                                                   std::string_view model) = 0;
  virtual absl::StatusOr<std::shared_ptr<Embedder>> FindEmbedder(std::string_view tenant,
                                                                 std::string_view worker,
                                                                 std::string_view embedder) = 0;

  // Before a model is asked. RESOURCE_EXHAUSTED `MODEL_BUDGET` when the caller's tenant may ask
  // none for now.
  virtual absl::Status MayAsk(const ModelCaller& /*caller*/) { return absl::OkStatus(); }

  // Told of every answer that a block got, whatever comes of it, and of what its worker says that
  // its own models took.
  virtual void Answered(const ModelCaller& /*caller*/, const Usage& /*usage*/) {}
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_LLM_MODEL_H_
