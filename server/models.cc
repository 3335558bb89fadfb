#include "server/models.h"

#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/llm/configured_models.h"
#include "core/llm/model.h"

namespace memoryd {
namespace {

absl::Status Closed() { return absl::UnavailableError("the server is stopping"); }

}  // namespace

void Models::Close() {
  std::unique_ptr<ConfiguredModels> closing;
  {
    MutexLock lock(mutex_);
    closing = std::move(configured_);
  }
}

absl::StatusOr<std::shared_ptr<ChatModel>> Models::FindChatModel(std::string_view tenant,
                                                                 std::string_view worker,
                                                                 std::string_view model) {
  if (!worker.empty()) return workers_.FindChatModel(tenant, worker, model);
  MutexLock lock(mutex_);
  return configured_ == nullptr ? Closed() : configured_->FindChatModel(tenant, worker, model);
}

absl::StatusOr<std::shared_ptr<Embedder>> Models::FindEmbedder(std::string_view tenant,
                                                               std::string_view worker,
                                                               std::string_view embedder) {
  if (!worker.empty()) return workers_.FindEmbedder(tenant, worker, embedder);
  MutexLock lock(mutex_);
  return configured_ == nullptr ? Closed() : configured_->FindEmbedder(tenant, worker, embedder);
}

}  // namespace memoryd
