#include "core/workers/worker_models.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/llm/model.h"
#include "core/workers/worker_call.h"

namespace memoryd {
namespace {

absl::Status BadAnswer(std::string_view message) {
  return Error(absl::StatusCode::kDataLoss, "WORKER_ANSWER", message);
}

absl::Status CheckVectors(const std::vector<std::vector<float>>& vectors, std::size_t texts) {
  if (vectors.size() != texts) {
    return BadAnswer("the worker answered with another number of embeddings than there are texts");
  }
  for (const std::vector<float>& vector : vectors) {
    if (vector.empty() || vector.size() != vectors.front().size()) {
      return BadAnswer("the worker answered with embeddings that are empty or of several sizes");
    }
    if (!std::all_of(vector.begin(), vector.end(), [](float x) { return std::isfinite(x); })) {
      return BadAnswer("the worker answered with an embedding that is not finite");
    }
  }
  return absl::OkStatus();
}

class WorkerChatModel final : public ChatModel {
 public:
  WorkerChatModel(WorkerCaller* caller, WorkerPoolKey pool, std::string model)
      : caller_(*caller), pool_(std::move(pool)), model_(std::move(model)) {}

  void Complete(const ModelCaller& caller, ChatRequest request, ModelDeadline deadline,
                Done done) override {
    WorkerCall call{caller.session,
                    caller.block,
                    caller.job_id,
                    deadline,
                    WorkerComplete{model_, std::move(request)},
                    caller.trace};
    caller_.Ask(
        pool_, std::move(call), [done = std::move(done)](absl::StatusOr<WorkerReply> reply) {
          absl::StatusOr<WorkerTextReply> text = Expect<WorkerTextReply>(reply);
          if (!text.ok()) return done(std::move(text).status());
          done(ChatReply{std::move(text->text), reply->usage, std::move(text->finish_reason)});
        });
  }

 private:
  WorkerCaller& caller_;
  const WorkerPoolKey pool_;
  const std::string model_;
};

class WorkerEmbedder final : public Embedder {
 public:
  WorkerEmbedder(WorkerCaller* caller, WorkerPoolKey pool, std::string embedder)
      : caller_(*caller), pool_(std::move(pool)), name_(std::move(embedder)) {}

  void Embed(const ModelCaller& caller, EmbedPurpose purpose, std::vector<std::string> texts,
             ModelDeadline deadline, Done done) override {
    const std::size_t count = texts.size();
    WorkerCall call{caller.session,
                    caller.block,
                    caller.job_id,
                    deadline,
                    WorkerEmbed{name_, std::move(texts), purpose},
                    caller.trace};
    caller_.Ask(pool_, std::move(call),
                [done = std::move(done), count](absl::StatusOr<WorkerReply> reply) {
                  absl::StatusOr<WorkerVectorsReply> found = Expect<WorkerVectorsReply>(reply);
                  absl::Status status = found.status();
                  if (status.ok()) status = CheckVectors(found->vectors, count);
                  if (!status.ok()) return done(std::move(status));
                  done(EmbedReply{std::move(found->vectors), reply->usage});
                });
  }

 private:
  WorkerCaller& caller_;
  const WorkerPoolKey pool_;
  const std::string name_;
};

}  // namespace

std::shared_ptr<ChatModel> MakeWorkerChatModel(WorkerCaller* caller, WorkerPoolKey pool,
                                               std::string model) {
  return std::make_shared<WorkerChatModel>(caller, std::move(pool), std::move(model));
}

std::shared_ptr<Embedder> MakeWorkerEmbedder(WorkerCaller* caller, WorkerPoolKey pool,
                                             std::string embedder) {
  return std::make_shared<WorkerEmbedder>(caller, std::move(pool), std::move(embedder));
}

}  // namespace memoryd
