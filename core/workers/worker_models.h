// Models that workers serve.
#ifndef MEMORYD_CORE_WORKERS_WORKER_MODELS_H_
#define MEMORYD_CORE_WORKERS_WORKER_MODELS_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/llm/model.h"
#include "core/workers/worker_call.h"

namespace memoryd {

// The workers of one tenant and name.
struct WorkerPoolKey {
  std::string tenant;
  std::string name;

  friend auto operator<=>(const WorkerPoolKey&, const WorkerPoolKey&) = default;
};

// Makes calls to workers.
class WorkerCaller {
 public:
  using Finish = std::function<void(absl::StatusOr<WorkerReply>)>;

  virtual ~WorkerCaller() = default;

  // `finish` runs exactly once, on the calling or another thread.
  virtual void Ask(const WorkerPoolKey& pool, WorkerCall call, Finish finish) = 0;
};

// Ask at each call for the workers that are attached then. `caller` outlives them. DATA_LOSS
// `WORKER_ANSWER` for what is no answer to the call: another kind of result, another number of
// embeddings than there are texts, or embeddings of several sizes or with numbers that are not
// finite.
std::shared_ptr<ChatModel> MakeWorkerChatModel(WorkerCaller* caller, WorkerPoolKey pool,
                                               std::string model);
std::shared_ptr<Embedder> MakeWorkerEmbedder(WorkerCaller* caller, WorkerPoolKey pool,
                                             std::string embedder);

// The answer if it is of the kind `Reply`, else as above.
template <typename Reply>
absl::StatusOr<Reply> Expect(absl::StatusOr<WorkerReply>& reply) {
  if (!reply.ok()) return std::move(reply).status();
  if (Reply* const found = std::get_if<Reply>(&reply->result)) return std::move(*found);
  return Error(absl::StatusCode::kDataLoss, "WORKER_ANSWER",
               "the worker answered with another kind of result than the call asks for");
}

}  // namespace memoryd

#endif  // MEMORYD_CORE_WORKERS_WORKER_MODELS_H_
