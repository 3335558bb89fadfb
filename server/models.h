// Where blocks find their models: among the server's settings, or at a worker.
#ifndef MEMORYD_SERVER_MODELS_H_
#define MEMORYD_SERVER_MODELS_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/llm/configured_models.h"
#include "core/llm/model.h"
#include "server/ops/model_usage.h"

namespace memoryd {

// Any thread.
class Models final : public ModelDirectory {
 public:
  // `workers` finds what workers serve, `usage` counts the answers of all; both must outlive this.
  Models(std::unique_ptr<ConfiguredModels> configured, ModelDirectory* workers, ModelUsage* usage)
      : workers_(*workers), usage_(*usage), configured_(std::move(configured)) {}

  // Ends the calls of configured models that are under way, and finds none from now on.
  void Close() MEMORYD_EXCLUDES(mutex_);

  absl::StatusOr<std::shared_ptr<ChatModel>> FindChatModel(std::string_view tenant,
                                                           std::string_view worker,
                                                           std::string_view model) override;
  absl::StatusOr<std::shared_ptr<Embedder>> FindEmbedder(std::string_view tenant,
                                                         std::string_view worker,
                                                         std::string_view embedder) override;
  absl::Status MayAsk(const ModelCaller& caller) override { return usage_.MayAsk(caller.tenant); }
  void Answered(const ModelCaller& caller, const Usage& usage) override {
    usage_.Count(caller.tenant, usage);
  }

 private:
  ModelDirectory& workers_;
  ModelUsage& usage_;
  Mutex mutex_;
  std::unique_ptr<ConfiguredModels> configured_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_MODELS_H_
