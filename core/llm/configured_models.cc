#include "core/llm/configured_models.h"

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/random/random.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/secret_file.h"
#include "core/base/status_macros.h"
#include "core/llm/http_client.h"
#include "core/llm/model.h"
#include "core/llm/model_settings.h"
#include "core/llm/model_stats.h"
#include "core/llm/openai_client.h"
#include "core/llm/retry.h"

namespace memoryd {
namespace {

absl::Status CheckFiles(const ModelSettings& settings) {
  const auto bad = [&settings](std::string_view key, const absl::Status& status) {
    return absl::InvalidArgumentError(
        fmt::format("models: {}: {}: {}", settings.name, key, std::string(status.message())));
  };
  if (!settings.key_file.empty()) {
    const absl::StatusOr<std::string> content = ReadSecretFile(settings.key_file);
    if (!content.ok()) return bad("key_file", content.status());
    if (const auto key = ModelKey(*content); !key.ok()) return bad("key_file", key.status());
  }
  if (!settings.ca_file.empty()) {
    const absl::StatusOr<std::string> content = ReadPublicFile(settings.ca_file);
    if (!content.ok()) return bad("ca_file", content.status());
  }
  return absl::OkStatus();
}

template <typename T>
absl::StatusOr<std::shared_ptr<T>> Find(
    const std::map<std::string, std::shared_ptr<T>, std::less<>>& models, std::string_view worker,
    std::string_view name, std::string_view what) {
  if (!worker.empty()) {
    return Error(absl::StatusCode::kUnavailable, "WORKER_ELSEWHERE",
                 "no such worker is attached to this server");
  }
  const auto found = models.find(name);
  if (found != models.end()) return found->second;
  return Error(absl::StatusCode::kNotFound, "MODEL_NOT_FOUND",
               fmt::format("this server has no {} of that name", what));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConfiguredModels>> ConfiguredModels::Make(
    const std::vector<ModelSettings>& settings, MemoryBudget* memory) {
  OpenAiClientOptions options;
  options.memory = memory;
  options.backoff = JitteredBackoff(absl::Uniform<std::uint64_t>(absl::BitGen()));
  return Make(settings, options);
}

absl::StatusOr<std::unique_ptr<ConfiguredModels>> ConfiguredModels::Make(
    const std::vector<ModelSettings>& settings, const OpenAiClientOptions& options) {
  auto models = std::unique_ptr<ConfiguredModels>(new ConfiguredModels());
  for (const ModelSettings& one : settings) MEMORYD_RETURN_IF_ERROR(CheckFiles(one));
  if (!settings.empty()) models->http_ = std::make_shared<HttpClient>();
  for (const ModelSettings& one : settings) {
    const auto client = std::make_shared<OpenAiClient>(one, models->http_, options);
    models->clients_.emplace(one.name, client);
    if (one.kind == ModelKind::kChat) {
      models->chat_models_.emplace(one.name, MakeOpenAiChatModel(client));
    } else {
      models->embedders_.emplace(one.name, MakeOpenAiEmbedder(client));
    }
  }
  return models;
}

ConfiguredModels::~ConfiguredModels() {
  if (http_ != nullptr) http_->Stop();
}

absl::StatusOr<std::shared_ptr<ChatModel>> ConfiguredModels::FindChatModel(std::string_view,
                                                                           std::string_view worker,
                                                                           std::string_view model) {
  return Find(chat_models_, worker, model, "chat model");
}

absl::StatusOr<std::shared_ptr<Embedder>> ConfiguredModels::FindEmbedder(
    std::string_view, std::string_view worker, std::string_view embedder) {
  return Find(embedders_, worker, embedder, "embedder");
}

void ConfiguredModels::VisitStats(
    const std::function<void(const std::string& name, const ModelStats& stats)>& visit) const {
  for (const auto& [name, client] : clients_) visit(name, client->stats());
}

}  // namespace memoryd
