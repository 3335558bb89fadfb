#include "server/server.h"

#include <fmt/format.h>
#include <google/protobuf/unknown_field_set.h>
#include <malloc.h>
#include <prometheus/collectable.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/random/random.h"
#include "core/base/error_cause.h"
#include "core/base/memory_budget.h"
#include "core/base/status_macros.h"
#include "core/engine/engine.h"
#include "core/storage/observed_store.h"
#include "core/tokens/token_counter.h"
#include "core/workers/worker_registry.h"
#include "server/access.h"
#include "server/http2/http2_server.h"
#include "server/live_settings.h"
#include "server/models.h"
#include "server/ops/build_info.h"
#include "server/ops/call_log.h"
#include "server/ops/call_stats.h"
#include "server/ops/calls_in_flight.h"
#include "server/ops/memory_watch.h"
#include "server/ops/metrics.h"
#include "server/ops/metrics_listener.h"
#include "server/ops/span_exporter.h"
#include "server/ops/store_error_log.h"
#include "server/rpc/handed_on.h"
#include "server/rpc/health_monitor.h"
#include "server/rpc/parse_request.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_call.h"
#include "server/settings/limits.h"
#include "server/wire/stored_body.h"

namespace memoryd {
namespace {

constexpr std::chrono::seconds kStoreRetry(1);
constexpr std::chrono::milliseconds kFlushReplies(250);
constexpr std::chrono::seconds kEndWorkers(1);
constexpr std::chrono::milliseconds kFlushSpans(500);
// What ends a process whose drain hangs, for instance on a store that never answers.
constexpr std::chrono::seconds kWatchdogMargin(2);
// For the watchdog's last line to leave.
constexpr std::chrono::milliseconds kLastLine(250);

std::int64_t NowMicros() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::uint64_t RandomNumber() {
  thread_local absl::BitGen generator;
  return absl::Uniform<std::uint64_t>(generator);
}

EngineOptions EngineOptionsOf(const Config& config, const SettingsInForce* tenants,
                              const BodyReader& bodies) {
  EngineOptions options;
  options.coherence = config.coherence;
  options.committers = config.committers;
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
  options.quota_of = [tenants](std::string_view tenant) {
    return tenants->Now()->tenants.Of(tenant).quota();
  };
  options.defaults_of = [tenants](std::string_view tenant, std::string_view template_name) {
    return tenants->Now()->DefaultsFor(tenant, template_name);
  };
  options.bodies = &bodies;
  options.vocabulary_directory = config.vocabulary_dir;
  options.now_us = &NowMicros;
  options.random = &RandomNumber;
  options.hand_on = &EncodeHandedOn;
  return options;
}

// Null, with a line in the log, where there are none: Query does without.
std::shared_ptr<const WordVectors> LoadWordVectors(const std::string& file) {
  if (file.empty()) {
    spdlog::info("word_vectors is off: Query ranks by words alone");
    return nullptr;
  }
  absl::StatusOr<std::shared_ptr<const WordVectors>> vectors = WordVectors::Load(file);
  // To read the tokenizer took several times the memory that is kept.
  malloc_trim(0);
  if (vectors.ok()) return *std::move(vectors);
  spdlog::warn("no word vectors, Query ranks by words alone: {}; see the setting word_vectors",
               std::string(vectors.status().message()));
  return nullptr;
}

int RpcThreads(const Config& config) {
  constexpr int kMost = 4;
  if (config.rpc_threads > 0) return config.rpc_threads;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 2, 1, kMost);
}

Http2ServerOptions ServerOptionsOf(const Config& config, const Access& access, std::int64_t budget,
                                   std::int64_t request_bytes) {
  Http2ServerOptions options;
  options.addresses = config.listen;
  options.tls = access.tls();
  options.unix_mode = config.unix_socket_mode;
  options.threads = RpcThreads(config);
  options.max_connections = static_cast<std::size_t>(config.max_connections);
  options.max_connections_per_address =
      static_cast<std::size_t>(config.max_connections_per_address);
  if (budget > 0) options.unauthenticated_bytes = budget / 4;
  options.max_message_bytes = static_cast<std::size_t>(request_bytes);
  options.keepalive = kKeepalive;
  options.max_connection_age = std::chrono::seconds(config.max_connection_age_s);
  options.max_connection_age_grace = std::chrono::seconds(config.max_connection_age_grace_s);
  return options;
}

// A kubelet's, and that of whoever else reaches the port: small.
Http2ServerOptions HealthOptionsOf(const Config& config) {
  Http2ServerOptions options;
  options.addresses = config.health_listen;
  options.unix_mode = config.unix_socket_mode;
  options.max_connections = 64;
  options.max_connections_per_address = 32;
  options.unauthenticated_bytes = 4 << 20;
  options.max_message_bytes = 1 << 10;
  return options;
}

// `setting` is that of the addresses.
absl::StatusOr<std::unique_ptr<Http2Server>> StartServer(std::string_view setting,
                                                         Http2ServerOptions options,
                                                         const RpcMethods* methods,
                                                         MemoryBudget* budget) {
  absl::StatusOr<std::unique_ptr<Http2Server>> server =
      Http2Server::Start(std::move(options), methods, budget);
  if (server.ok()) return server;
  const absl::Status& status = server.status();
  return absl::Status(status.code(), fmt::format("{}: {}", setting, std::string(status.message())));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenMigratedStore(const Config& config, const sigset_t& stop,
                                                         StartWatch& start) {
  StoreOptions options;
  options.url = config.store;
  options.coherence = config.coherence;
  options.writers = config.committers;
  options.readers = config.readers;
  options.timeout_ms = config.store_timeout_ms;
  options.transaction_pooling = config.transaction_pooling;
  options.accept_lost_commits = config.accept_lost_commits;
  options.warn = [](const std::string& line) { spdlog::warn("store: {}", line); };
  for (;;) {
    start.Begin("opening the store");
    absl::StatusOr<std::unique_ptr<Store>> store = OpenStore(options);
    absl::Status status = store.status();
    if (status.ok()) {
      start.Begin("bringing the store's schema up to date");
      status = (*store)->Migrate();
    }
    start.End();
    if (status.ok()) return store;
    if (!absl::IsUnavailable(status)) return status;
    spdlog::warn("waiting for the store: {}", TextForLog(status));
    const timespec wait{std::chrono::seconds(kStoreRetry).count(), 0};
    if (sigtimedwait(&stop, nullptr, &wait) > 0) return absl::CancelledError("stopped");
  }
}

absl::Status Serve(const CommandLine& line, const ReadAgain& read_again, const StopSignals& stop,
                   Log& log, StartWatch& start, const OnStarted& on_started) {
  const Config& config = line.config;
  const std::int64_t start_us = NowMicros();
  start.Begin("reading certificates and credentials");
  MEMORYD_ASSIGN_OR_RETURN(const std::unique_ptr<Access> access, Access::Open(config));
  std::unique_ptr<AuditLog> audit;
  if (!config.audit_log.empty()) {
    MEMORYD_ASSIGN_OR_RETURN(audit, AuditLog::Open(config.audit_log));
  }
  std::unique_ptr<SpanExporter> spans;
  if (!config.otlp_endpoint.empty()) {
    MEMORYD_ASSIGN_OR_RETURN(spans, MakeSpanExporter(config.otlp_endpoint, Version()));
  }
  MEMORYD_ASSIGN_OR_RETURN(const std::unique_ptr<Store> opened,
                           OpenMigratedStore(config, stop.drain, start));
  StoreErrorLog store_errors(&log);
  ObservedStore store(opened.get(),
                      [&store_errors](StoreOperation operation, const absl::Status& error) {
                        store_errors.Note(operation, error);
                      });
  start.Begin("reading vocabularies and word vectors");
  // Read now, so that the first Put does not wait for it.
  if (auto counter = MakeTokenCounter("cl100k_base", config.vocabulary_dir); !counter.ok()) {
    return counter.status();
  }
  CaptureProtobufLog();
  // Made before other threads are: ThreadSanitizer sees no order within Debian's library.
  google::protobuf::UnknownFieldSet::default_instance();
  const std::shared_ptr<const WordVectors> word_vectors = LoadWordVectors(config.word_vectors);
  start.Begin("beginning to serve");
  const std::int64_t memory_limit =
      config.memory_limit_mib > 0 ? config.memory_limit_mib << 20 : ContainerMemoryLimit();
  MemoryBudget budget(MemoryBudgetFor(memory_limit, ResidentBytes()));
  if (memory_limit > 0) {
    spdlog::info("memory: {} MiB of {} for what callers have the server hold", budget.limit() >> 20,
                 memory_limit >> 20);
  }
  MEMORYD_ASSIGN_OR_RETURN(const std::int64_t request_bytes,
                           RequestBytes(config.max_request_mib, budget.limit()));
  const StoredBodyReader bodies;
  MEMORYD_ASSIGN_OR_RETURN(std::unique_ptr<ConfiguredModels> configured,
                           ConfiguredModels::Make(config.models, &budget));
  const ConfiguredModels* const counted_models = configured.get();
  // Outlives what calls workers.
  WorkerRegistryOptions worker_options;
  worker_options.memory = &budget;
  WorkerRegistry workers(worker_options);
  SettingsInForce tenant_settings({config.tenants, config.templates});
  WarnOfMissingModels(config.templates, config.models);
  const auto is_named = [&config,
                         authenticator = access->authenticator()](std::string_view tenant) {
    return authenticator == nullptr || config.tenants.exceptions.contains(tenant) ||
           authenticator->HasTenant(tenant);
  };
  ModelUsage model_usage(
      [&tenant_settings](std::string_view tenant) {
        return tenant_settings.Now()->tenants.Of(tenant).model_budget();
      },
      is_named, &NowMicros);
  Models models(std::move(configured), &workers, &model_usage);
  EngineOptions options = EngineOptionsOf(config, &tenant_settings, bodies);
  options.word_vectors = word_vectors;
  options.memory = &budget;
  if (budget.limit() > 0) {
    options.max_active_bytes = std::min(options.max_active_bytes, budget.limit() / 10);
  }
  options.models = &models;
  options.workers = &workers;
  Engine engine(&store, options);
  workers.OnAttach([&engine] { engine.jobs().WorkerAttached(); });
  // Models answer into the engine: their calls end before it does.
  const absl::Cleanup close_models = [&engine, &models] {
    engine.StopJobs();
    models.Close();
  };
  CallsInFlight calls;
  MemoryWatch memory(memory_limit, &ResidentBytes, &budget);
  TenantLimiter tenants(config.tenants);
  CallStats stats;
  CallLog call_log(&log, LoggedCallsOf(config));
  CallEnvironment environment;
  environment.calls = &calls;
  environment.memory = &memory;
  environment.tenants = &tenants;
  environment.authenticator = access->authenticator();
  environment.stats = &stats;
  environment.log = &call_log;
  environment.audit = audit.get();
  environment.spans = spans.get();
  Services services({.engine = &engine,
                     .workers = &workers,
                     .model_usage = &model_usage,
                     .facts = {.version = Version(),
                               .revision = Revision(),
                               .start_us = start_us,
                               .store_kind = FindStoreKind(config.store)->scheme,
                               .plaintext_beyond_loopback = config.ListensInPlaintext(),
                               .takes_tokens = config.Authenticates(),
                               .takes_certificates = !config.tls_client_ca.empty(),
                               .options = options,
                               .store = &store,
                               .request_bytes = request_bytes,
                               .settings = &tenant_settings},
                     .wants_reflection = access->wants_reflection(),
                     .guards_reflection = access->guards_reflection()},
                    environment);
  spdlog::info("memoryd {}, revision {}", Version(), Revision());
  auto monitor = std::make_unique<HealthMonitor>(&engine, &store, &memory, &services.health());
  MEMORYD_ASSIGN_OR_RETURN(
      const std::unique_ptr<Http2Server> rpc_server,
      StartServer("listen", ServerOptionsOf(config, *access, budget.limit(), request_bytes),
                  &services.methods(), &budget));
  std::unique_ptr<Http2Server> for_health;
  if (!config.health_listen.empty()) {
    MEMORYD_ASSIGN_OR_RETURN(for_health, StartServer("health_listen", HealthOptionsOf(config),
                                                     &services.health_methods(), &budget));
  }
  std::unique_ptr<MetricsListener> metrics;
  if (!config.metrics_listen.empty()) {
    MEMORYD_ASSIGN_OR_RETURN(
        metrics, MetricsListener::Start(
                     config.metrics_listen,
                     MakeMetrics({Version(),    Revision(),       start_us,      &stats,
                                  &calls,       rpc_server.get(), &memory,       &tenants,
                                  &engine,      &store,           &log,          counted_models,
                                  &workers,     audit.get(),      access->jwt(), access->tls(),
                                  &model_usage, spans.get(),      &budget,       is_named}),
                     [&services] { return services.health().IsServing("").value_or(false); }));
  }
  Listening listening;
  listening.listen = rpc_server->addresses();
  if (for_health != nullptr) listening.health = for_health->addresses();
  if (metrics != nullptr) listening.metrics = metrics->address();
  start.End();
  on_started(listening);

  LiveSettings live(line, &log, &call_log, &tenants, &tenant_settings);
  sigset_t awaited = stop.drain;
  sigaddset(&awaited, SIGHUP);
  int signal = 0;
  while (sigwait(&awaited, &signal) == 0 && sigismember(&stop.drain, signal) == 0) {
    live.Reload(read_again());
  }
  spdlog::info("signal {}: draining", signal);
  pthread_sigmask(SIG_UNBLOCK, &stop.at_once, nullptr);
  const auto grace = std::chrono::seconds(config.drain_seconds);
  const auto drained_by = std::chrono::steady_clock::now() + grace;
  std::thread([grace] {
    std::this_thread::sleep_for(grace + kWatchdogMargin - kLastLine);
    spdlog::error("the drain did not end in time: exiting");
    std::this_thread::sleep_for(kLastLine);
    _exit(3);
  }).detach();
  monitor->BeginDrain();
  services.worker_service().BeginDrain();
  if (!calls.Drain(drained_by)) {
    spdlog::warn("calls still wait for the store: ending them");
    engine.ExpirePending();
  }
  if (!services.worker_service().EndStreams(std::chrono::steady_clock::now() + kEndWorkers)) {
    spdlog::warn("workers do not read: cutting them off");
  }
  // Streams such as a health Watch never end by themselves: they get no more than the last replies
  // need to leave.
  const auto replies_left = std::chrono::steady_clock::now() + kFlushReplies;
  rpc_server->Shutdown(replies_left);
  if (for_health != nullptr) for_health->Shutdown(replies_left);
  monitor.reset();
  if (spans != nullptr) {
    spans->Shutdown(std::min(drained_by, std::chrono::steady_clock::now() + kFlushSpans));
  }
  spdlog::info("drained");
  return absl::OkStatus();
}

}  // namespace memoryd
