#include "server/engine_and_models.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/random/random.h"
#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/base/random_source.h"
#include "core/base/status_macros.h"
#include "core/base/wall_clock.h"
#include "core/engine/engine.h"
#include "core/llm/configured_models.h"
#include "core/storage/stores.h"
#include "core/workers/worker_registry.h"
#include "server/config.h"
#include "server/live_settings.h"
#include "server/rpc/handed_on.h"

namespace memoryd {
namespace {

class SystemClock final : public WallClock {
 public:
  std::int64_t NowUs() const override {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};
const SystemClock kClock;

class SystemRandom final : public RandomSource {
 public:
  std::uint64_t Next() override {
    thread_local absl::BitGen generator;
    return absl::Uniform<std::uint64_t>(generator);
  }
};
SystemRandom system_random;

WorkerRegistryOptions WorkerOptionsOf(MemoryBudget* memory) {
  WorkerRegistryOptions options;
  options.memory = memory;
  return options;
}

// As far as the settings alone say it.
EngineOptions EngineOptionsOf(const Config& config) {
  EngineOptions options;
  options.coherence = config.coherence;
  options.committers = config.committers;
  options.large_writes_apart = FindStoreKind(config.store)->commits_at_once;
  options.readers = config.readers;
  options.max_pending_calls = config.max_pending_calls;
  options.cache_bytes = static_cast<std::size_t>(config.cache_mib) << 20;
  options.max_active_bytes = config.active_mib << 20;
  options.searchers = config.searchers;
  options.index_bytes = static_cast<std::size_t>(config.index_mib) << 20;
  options.vector_bytes = static_cast<std::size_t>(config.vector_mib) << 20;
  options.block_timeout = std::chrono::milliseconds(config.block_timeout_ms);
  options.sweep_interval = std::chrono::milliseconds(config.sweep_interval_ms);
  options.jobs.limits.max_running = config.max_running_jobs;
  // One tenant leaves room for others.
  options.jobs.limits.max_running_of_tenant = std::max(1, config.max_running_jobs / 2);
  options.jobs.max_attempts = config.job_attempts;
  options.jobs.first_retry = std::chrono::milliseconds(config.job_retry_ms);
  options.jobs.lease_time = std::chrono::milliseconds(config.job_lease_ms);
  options.jobs.attempt_time = std::chrono::milliseconds(config.job_timeout_ms);
  options.vocabulary_directory = config.vocabulary_dir;
  options.clock = &kClock;
  options.random = &system_random;
  options.hand_on = &EncodeHandedOn;
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EngineAndModels>> EngineAndModels::Make(const EngineParts& parts) {
  MEMORYD_ASSIGN_OR_RETURN(std::unique_ptr<ConfiguredModels> configured,
                           ConfiguredModels::Make(parts.config->models, parts.memory));
  WarnOfMissingModels(parts.config->templates, parts.config->models);
  return std::unique_ptr<EngineAndModels>(new EngineAndModels(parts, std::move(configured)));
}

EngineAndModels::EngineAndModels(const EngineParts& parts,
                                 std::unique_ptr<ConfiguredModels> configured)
    : workers_(WorkerOptionsOf(parts.memory)),
      model_usage_(
          [settings = parts.settings](std::string_view tenant) {
            return settings->Now()->tenants.Of(tenant).model_budget();
          },
          parts.is_named, &kClock),
      configured_(configured.get()),
      models_(std::move(configured), &workers_, &model_usage_),
      options_(OptionsOf(parts)),
      engine_(parts.store, options_) {
  workers_.OnAttach([this] { engine_.jobs().WorkerAttached(); });
}

EngineAndModels::~EngineAndModels() {
  engine_.StopJobs();
  models_.Close();
}

EngineOptions EngineAndModels::OptionsOf(const EngineParts& parts) {
  EngineOptions options = EngineOptionsOf(*parts.config);
  options.quota_of = [settings = parts.settings](std::string_view tenant) {
    return settings->Now()->tenants.Of(tenant).quota();
  };
  options.defaults_of = [settings = parts.settings](std::string_view tenant,
                                                    std::string_view template_name) {
    return settings->Now()->DefaultsFor(tenant, template_name);
  };
  options.bodies = &bodies_;
  options.word_vectors = parts.word_vectors;
  options.memory = parts.memory;
  if (parts.memory->limit() > 0) {
    options.max_active_bytes = std::min(options.max_active_bytes, parts.memory->limit() / 10);
  }
  options.models = &models_;
  options.workers = &workers_;
  return options;
}

}  // namespace memoryd
