#include "server/server.h"

#include <fmt/format.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <malloc.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "core/base/error_cause.h"
#include "core/base/status_macros.h"
#include "core/engine/engine.h"
#include "core/storage/observed_store.h"
#include "core/tokens/token_counter.h"
#include "core/workers/worker_registry.h"
#include "grpc/health/v1/health.pb.h"
#include "server/access.h"
#include "server/block_service.h"
#include "server/build_info.h"
#include "server/call_log.h"
#include "server/call_stats.h"
#include "server/calls_in_flight.h"
#include "server/handed_on.h"
#include "server/health_monitor.h"
#include "server/job_service.h"
#include "server/limits.h"
#include "server/limits_in_force.h"
#include "server/live_settings.h"
#include "server/memory_service.h"
#include "server/memory_watch.h"
#include "server/metrics.h"
#include "server/models.h"
#include "server/server_service.h"
#include "server/session_service.h"
#include "server/span_exporter.h"
#include "server/store_error_log.h"
#include "server/stored_body.h"
#include "server/unary_call.h"
#include "server/worker_service.h"

namespace memoryd {
namespace {

// Framing and the request's other fields.
constexpr int kRequestOverhead = 64 << 10;
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
  thread_local std::mt19937_64 generator = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  return generator();
}

EngineOptions EngineOptionsOf(const Config& config, const LimitsInForce* limits,
                              const BodyReader& bodies) {
  EngineOptions options;
  options.coherence = config.coherence;
  options.committers = config.committers;
  options.readers = config.readers;
  options.max_pending_calls = config.max_pending_calls;
  options.cache_bytes = static_cast<std::size_t>(config.cache_mib) << 20;
  options.searchers = config.searchers;
  options.index_bytes = static_cast<std::size_t>(config.index_mib) << 20;
  options.vector_bytes = static_cast<std::size_t>(config.vector_mib) << 20;
  options.block_timeout = std::chrono::milliseconds(config.block_timeout_ms);
  options.sweep_interval = std::chrono::milliseconds(config.sweep_interval_ms);
  options.jobs.max_running = config.max_running_jobs;
  // One tenant leaves room for others.
  options.jobs.max_running_of_tenant = std::max(1, config.max_running_jobs / 2);
  options.jobs.max_attempts = config.job_attempts;
  options.jobs.first_retry = std::chrono::milliseconds(config.job_retry_ms);
  options.jobs.lease_time = std::chrono::milliseconds(config.job_lease_ms);
  options.jobs.attempt_time = std::chrono::milliseconds(config.job_timeout_ms);
  options.quota_of = [limits](std::string_view tenant) { return limits->Of(tenant).quota(); };
  options.retention_of = [limits](std::string_view tenant) {
    return limits->Of(tenant).retention();
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

// Linking gRPC's reflection gives it to every server of the process; this takes it from one.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    const std::string name = grpc::reflection::ProtoServerReflectionPlugin().name();
    std::erase_if(*plugins, [&name](const auto& plugin) { return plugin->name() == name; });
  }
};

void SetLimits(grpc::ServerBuilder& builder, const Config& config) {
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes + kRequestOverhead);
  builder.SetMaxSendMessageSize(-1);
  // A compressed request is inflated before its size is known.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(kMaxMetadataBytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 256);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 5000);
  // A worker's machine may vanish without a word.
  constexpr auto kKeepaliveMs = static_cast<int>(std::chrono::milliseconds(kKeepalive).count());
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs / 3);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kKeepaliveMs / 3);
  // What never ends by itself, such as a request that comes byte by byte, ends with its connection;
  // and clients spread anew over replicas.
  if (config.max_connection_age_s > 0) {
    constexpr int kMilliseconds = 1000;
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                               config.max_connection_age_s * kMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                               config.max_connection_age_grace_s * kMilliseconds);
  }
  // Two servers must not share a port without knowing.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

struct RunningServer {
  std::unique_ptr<grpc::Server> server;
  std::vector<std::string> addresses;  // With the ports that were picked.
};

// Without `access`, in plaintext.
absl::StatusOr<RunningServer> StartServer(grpc::ServerBuilder& builder,
                                          const std::vector<std::string>& addresses,
                                          const Config& config, Access* access = nullptr) {
  SetLimits(builder, config);
  std::vector<int> ports(addresses.size(), 0);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    builder.AddListeningPort(addresses[i],
                             access == nullptr ? grpc::InsecureServerCredentials()
                                               : access->CredentialsFor(addresses[i]),
                             &ports[i]);
  }
  RunningServer running;
  running.server = builder.BuildAndStart();
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const std::string& address = addresses[i];
    if (running.server == nullptr || ports[i] <= 0) {
      if (running.server != nullptr) running.server->Shutdown();
      return absl::UnavailableError(fmt::format("can't listen on {}", address));
    }
    running.addresses.push_back(
        address.starts_with("unix:")
            ? address
            : fmt::format("{}:{}", address.substr(0, address.rfind(':')), ports[i]));
  }
  return running;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenMigratedStore(const Config& config,
                                                         const sigset_t& stop) {
  StoreOptions options;
  options.url = config.store;
  options.coherence = config.coherence;
  options.writers = config.committers;
  options.readers = config.readers;
  options.timeout_ms = config.store_timeout_ms;
  options.transaction_pooling = config.transaction_pooling;
  for (;;) {
    absl::StatusOr<std::unique_ptr<Store>> store = OpenStore(options);
    absl::Status status = store.status();
    if (status.ok()) status = (*store)->Migrate();
    if (status.ok()) return store;
    if (!absl::IsUnavailable(status)) return status;
    spdlog::warn("waiting for the store: {}", TextForLog(status));
    const timespec wait{std::chrono::seconds(kStoreRetry).count(), 0};
    if (sigtimedwait(&stop, nullptr, &wait) > 0) return absl::CancelledError("stopped");
  }
}

absl::Status Serve(const CommandLine& line, const ReadAgain& read_again, const sigset_t& stop,
                   Log& log) {
  const Config& config = line.config;
  const std::int64_t start_us = NowMicros();
  MEMORYD_ASSIGN_OR_RETURN(const std::unique_ptr<Access> access, Access::Open(config));
  std::unique_ptr<AuditLog> audit;
  if (!config.audit_log.empty()) {
    MEMORYD_ASSIGN_OR_RETURN(audit, AuditLog::Open(config.audit_log));
  }
  std::unique_ptr<SpanExporter> spans;
  if (!config.otlp_endpoint.empty()) {
    MEMORYD_ASSIGN_OR_RETURN(spans, MakeSpanExporter(config.otlp_endpoint, Version()));
  }
  MEMORYD_ASSIGN_OR_RETURN(const std::unique_ptr<Store> opened, OpenMigratedStore(config, stop));
  StoreErrorLog store_errors(&log);
  ObservedStore store(opened.get(),
                      [&store_errors](StoreOperation operation, const absl::Status& error) {
                        store_errors.Note(operation, error);
                      });
  // Read now, so that the first Put does not wait for it.
  if (auto counter = MakeTokenCounter("cl100k_base", config.vocabulary_dir); !counter.ok()) {
    return counter.status();
  }
  CaptureProtobufLog();
  const StoredBodyReader bodies;
  MEMORYD_ASSIGN_OR_RETURN(std::unique_ptr<ConfiguredModels> configured,
                           ConfiguredModels::Make(config.models));
  const ConfiguredModels* const counted_models = configured.get();
  // Outlives what calls workers.
  WorkerRegistry workers;
  LimitsInForce limits(config.tenants);
  const auto is_named = [&config,
                         authenticator = access->authenticator()](std::string_view tenant) {
    return authenticator == nullptr || config.tenants.exceptions.contains(tenant) ||
           authenticator->HasTenant(tenant);
  };
  ModelUsage model_usage(
      [&limits](std::string_view tenant) { return limits.Of(tenant).model_budget(); }, is_named,
      &NowMicros);
  Models models(std::move(configured), &workers, &model_usage);
  EngineOptions options = EngineOptionsOf(config, &limits, bodies);
  options.word_vectors = LoadWordVectors(config.word_vectors);
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
  MemoryWatch memory(
      config.memory_limit_mib > 0 ? config.memory_limit_mib << 20 : ContainerMemoryLimit(),
      &ResidentBytes, [&engine] { engine.ShrinkCaches(); });
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
  MemoryService memory_service(&engine, environment);
  SessionService session_service(&engine, environment);
  JobService job_service(&engine, &model_usage, start_us, environment);
  BlockService block_service(&engine, environment);
  ServerService server_service({Version(), Revision(), start_us, config, options, &store},
                               environment);
  WorkerService worker_service(&workers, environment, {Version()});
  std::unique_ptr<MetricsListener> metrics;
  if (!config.metrics_listen.empty()) {
    MEMORYD_ASSIGN_OR_RETURN(
        metrics,
        MetricsListener::Start(config.metrics_listen,
                               {Version(), Revision(), start_us, &stats, &calls, &memory, &tenants,
                                &engine, &store, &log, counted_models, &workers, audit.get(),
                                access->jwt(), access->tls(), &model_usage, spans.get()}));
  }

  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  // gRPC serves health without descriptors, which reflection needs to answer for it.
  google::protobuf::LinkMessageReflection<grpc::health::v1::HealthCheckRequest>();
  if (!access->wants_reflection()) builder.SetOption(std::make_unique<WithoutReflection>());
  builder.RegisterService(&memory_service);
  builder.RegisterService(&session_service);
  builder.RegisterService(&job_service);
  builder.RegisterService(&block_service);
  builder.RegisterService(&server_service);
  builder.RegisterService(&worker_service);
  MEMORYD_ASSIGN_OR_RETURN(const RunningServer all,
                           StartServer(builder, config.listen, config, access.get()));
  std::vector<grpc::HealthCheckServiceInterface*> health = {all.server->GetHealthCheckService()};
  // Answers UNIMPLEMENTED; gRPC starts no server that has no service of its own.
  grpc::CallbackGenericService nothing_else;
  RunningServer for_health;
  if (!config.health_listen.empty()) {
    grpc::ServerBuilder health_builder;
    health_builder.SetOption(std::make_unique<WithoutReflection>());
    health_builder.RegisterCallbackGenericService(&nothing_else);
    MEMORYD_ASSIGN_OR_RETURN(for_health, StartServer(health_builder, config.health_listen, config));
    health.push_back(for_health.server->GetHealthCheckService());
  }
  spdlog::info("memoryd {}, revision {}", Version(), Revision());
  auto monitor = std::make_unique<HealthMonitor>(&engine, &store, &memory, std::move(health));
  if (metrics != nullptr) fmt::print("metrics on {}\n", metrics->address());
  for (const std::string& address : all.addresses) fmt::print("listening on {}\n", address);
  for (const std::string& address : for_health.addresses) fmt::print("health on {}\n", address);
  std::fflush(stdout);

  LiveSettings live(line.settings, &log, &call_log, &tenants, &limits);
  sigset_t awaited = stop;
  sigaddset(&awaited, SIGHUP);
  int signal = 0;
  while (sigwait(&awaited, &signal) == 0 && signal == SIGHUP) live.Reload(read_again());
  spdlog::info("signal {}: draining", signal);
  const auto grace = std::chrono::seconds(config.drain_seconds);
  const auto drained_by = std::chrono::steady_clock::now() + grace;
  std::thread([grace] {
    std::this_thread::sleep_for(grace + kWatchdogMargin - kLastLine);
    spdlog::error("the drain did not end in time: exiting");
    std::this_thread::sleep_for(kLastLine);
    _exit(3);
  }).detach();
  monitor->BeginDrain();
  worker_service.BeginDrain();
  if (!calls.Drain(drained_by)) {
    spdlog::warn("calls still wait for the store: ending them");
    engine.ExpirePending();
  }
  if (!worker_service.EndStreams(std::chrono::steady_clock::now() + kEndWorkers)) {
    spdlog::warn("workers do not read: cutting them off");
  }
  // Streams such as a health Watch never end by themselves: they get no more than the last replies
  // need to leave.
  const auto replies_left = std::chrono::system_clock::now() + kFlushReplies;
  all.server->Shutdown(replies_left);
  if (for_health.server != nullptr) for_health.server->Shutdown(replies_left);
  monitor.reset();
  if (spans != nullptr) {
    spans->Shutdown(std::min(drained_by, std::chrono::steady_clock::now() + kFlushSpans));
  }
  spdlog::info("drained");
  return absl::OkStatus();
}

}  // namespace memoryd
