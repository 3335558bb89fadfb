// Where blocks find their models: among the server's settings, or at a worker.
#ifndef MEMORYD_SERVER_MODELS_H_
#define MEMORYD_SERVER_MODELS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/models/configured_models.h"
#include "core/models/model.h"

namespace memoryd {

// Any thread.
class Models final : public ModelDirectory {
 public:
  // `workers` finds what workers serve; it must outlive this.
  Models(std::unique_ptr<ConfiguredModels> configured, ModelDirectory* workers)
      : workers_(*workers), configured_(std::move(configured)) {}

  // Ends the calls of configured models that are under way, and finds none from now on.
  void Close() MEMORYD_EXCLUDES(mutex_);

  absl::StatusOr<std::shared_ptr<ChatModel>> FindChatModel(std::string_view tenant,
                                                           std::string_view worker,
                                                           std::string_view model) override;
  absl::StatusOr<std::shared_ptr<Embedder>> FindEmbedder(std::string_view tenant,
                                                         std::string_view worker,
                                                         std::string_view embedder) override;
  void Answered(const ModelCaller& caller, const Usage& usage) override MEMORYD_EXCLUDES(mutex_);

  // What models have taken for the tenant since the server began.
  Usage UsageOf(std::string_view tenant) const MEMORYD_EXCLUDES(mutex_);

 private:
  ModelDirectory& workers_;
  mutable Mutex mutex_;
  // A tenant is one of the credentials' and stays: there are not many.
  std::map<std::string, Usage, std::less<>> usage_ MEMORYD_GUARDED_BY(mutex_);
  std::unique_ptr<ConfiguredModels> configured_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_MODELS_H_
