// The models that the server's settings name.
#ifndef MEMORYD_CORE_LLM_CONFIGURED_MODELS_H_
#define MEMORYD_CORE_LLM_CONFIGURED_MODELS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/llm/model.h"
#include "core/llm/model_settings.h"
#include "core/llm/openai_client.h"

namespace memoryd {

// Models may be used for as long as anybody holds them; once this is gone, every call ends
// UNAVAILABLE, those under way at its destruction.
class ConfiguredModels final : public ModelDirectory {
 public:
  // `settings` as ParseModels() gives them. INVALID_ARGUMENT with one line that names the model
  // when a file that it needs can't be used.
  static absl::StatusOr<std::unique_ptr<ConfiguredModels>> Make(
      const std::vector<ModelSettings>& settings, MemoryBudget* memory = nullptr);
  // With the clock and the waits of tests.
  static absl::StatusOr<std::unique_ptr<ConfiguredModels>> Make(
      const std::vector<ModelSettings>& settings, const OpenAiClientOptions& options);
  ~ConfiguredModels() override;
  ConfiguredModels(const ConfiguredModels&) = delete;
  ConfiguredModels& operator=(const ConfiguredModels&) = delete;

  // Every tenant may use every one of them. Workers are not served here.
  absl::StatusOr<std::shared_ptr<ChatModel>> FindChatModel(std::string_view tenant,
                                                           std::string_view worker,
                                                           std::string_view model) override;
  absl::StatusOr<std::shared_ptr<Embedder>> FindEmbedder(std::string_view tenant,
                                                         std::string_view worker,
                                                         std::string_view embedder) override;

  // Calls `visit` with each model's name and counts, in the order of the names.
  void VisitStats(
      const std::function<void(const std::string& name, const ModelStats& stats)>& visit) const;

 private:
  ConfiguredModels() = default;

  // Null without any model: then there is no thread either.
  std::shared_ptr<HttpClient> http_;
  std::map<std::string, std::shared_ptr<OpenAiClient>> clients_;
  std::map<std::string, std::shared_ptr<ChatModel>, std::less<>> chat_models_;
  std::map<std::string, std::shared_ptr<Embedder>, std::less<>> embedders_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_LLM_CONFIGURED_MODELS_H_
