// The engine, with the models and workers that answer into it.
#ifndef MEMORYD_SERVER_ENGINE_AND_MODELS_H_
#define MEMORYD_SERVER_ENGINE_AND_MODELS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/engine/engine.h"
#include "core/llm/configured_models.h"
#include "core/retrieval/word_vectors.h"
#include "core/storage/store.h"
#include "core/workers/worker_registry.h"
#include "server/access/settings_in_force.h"
#include "server/config.h"
#include "server/models.h"
#include "server/ops/model_usage.h"
#include "server/wire/stored_body.h"

namespace memoryd {

// What is pointed to outlives the engine.
struct EngineParts {
  const Config* config = nullptr;
  Store* store = nullptr;
  // Of tenants and templates; asked for each call.
  const SettingsInForce* settings = nullptr;
  MemoryBudget* memory = nullptr;
  std::shared_ptr<const WordVectors> word_vectors = nullptr;  // Null: searches go by words alone.
  ModelUsage::IsNamed is_named = nullptr;
};

// Ends in this order: jobs begin no more and calls of configured models end, since they answer into
// the engine; the engine finishes what was admitted; then goes what it used, models before the
// workers that they may be. Any thread may call any method.
class EngineAndModels {
 public:
  // INVALID_ARGUMENT with one line that names the model whose file can't be used. Warns of models
  // that templates name and the server does not have.
  static absl::StatusOr<std::unique_ptr<EngineAndModels>> Make(const EngineParts& parts);
  ~EngineAndModels();
  EngineAndModels(const EngineAndModels&) = delete;
  EngineAndModels& operator=(const EngineAndModels&) = delete;

  Engine& engine() { return engine_; }
  const EngineOptions& options() const { return options_; }
  WorkerRegistry& workers() { return workers_; }
  ModelUsage& model_usage() { return model_usage_; }
  // For their counts. Not to be used once this ends.
  const ConfiguredModels* configured_models() const { return configured_; }

 private:
  EngineAndModels(const EngineParts& parts, std::unique_ptr<ConfiguredModels> configured);

  EngineOptions OptionsOf(const EngineParts& parts);

  const StoredBodyReader bodies_{};
  WorkerRegistry workers_;
  ModelUsage model_usage_;
  const ConfiguredModels* const configured_;  // Owned by models_.
  Models models_;
  const EngineOptions options_;
  Engine engine_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_ENGINE_AND_MODELS_H_
