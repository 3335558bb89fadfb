#include "server/server.h"

#include <fmt/format.h>
#include <google/protobuf/unknown_field_set.h>
#include <prometheus/collectable.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/memory_budget.h"
#include "core/base/status_macros.h"
#include "core/retrieval/word_vectors.h"
#include "core/storage/observed_store.h"
#include "core/storage/stores.h"
#include "core/tokens/token_counter.h"
#include "server/access.h"
#include "server/announcement.h"
#include "server/command_line.h"
#include "server/config.h"
#include "server/engine_and_models.h"
#include "server/http/http_server.h"
#include "server/http2/http2_server.h"
#include "server/listener_options.h"
#include "server/live_settings.h"
#include "server/migrated_store.h"
#include "server/ops/audit_log.h"
#include "server/ops/build_info.h"
#include "server/ops/freed_memory.h"
#include "server/ops/log.h"
#include "server/ops/memory_watch.h"
#include "server/ops/metrics.h"
#include "server/ops/model_usage.h"
#include "server/ops/span_exporter.h"
#include "server/rpc/health_monitor.h"
#include "server/rpc/parse_request.h"
#include "server/rpc/server_service.h"
#include "server/rpc/services.h"
#include "server/rpc/subject_gate.h"
#include "server/rpc/unary_call.h"
#include "server/setting_table.h"
#include "server/start_watch.h"
#include "server/wire/rpc_call.h"

namespace memoryd {
namespace {

constexpr std::chrono::milliseconds kFlushReplies(250);
constexpr std::chrono::seconds kEndWorkers(1);
constexpr std::chrono::milliseconds kFlushSpans(500);
// What ends a process whose drain hangs, for instance on a store that never answers.
constexpr std::chrono::seconds kWatchdogMargin(2);
// For the watchdog's last line to leave.
constexpr std::chrono::milliseconds kLastLine(250);

// Null, with a line in the log, where there are none: Query does without.
std::shared_ptr<const WordVectors> LoadWordVectors(const std::string& file) {
  if (file.empty()) {
    spdlog::info("word_vectors is off: Query ranks by words alone");
    return nullptr;
  }
  std::error_code error;
  if (file == DefaultWordVectors() && !std::filesystem::exists(file, error)) {
    spdlog::info(
        "no word vectors came with this build: Query ranks by words alone; see the setting "
        "word_vectors");
    return nullptr;
  }
  absl::StatusOr<std::shared_ptr<const WordVectors>> vectors = WordVectors::Load(file);
  // To read the tokenizer took several times the memory that is kept.
  ReturnFreedMemory();
  if (vectors.ok()) return *std::move(vectors);
  spdlog::warn("no word vectors, Query ranks by words alone: {}; see the setting word_vectors",
               std::string(vectors.status().message()));
  return nullptr;
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

// Ends the process unless it has ended by itself within `time`.
void EndProcessAfter(std::chrono::seconds time) {
  std::thread([time] {
    std::this_thread::sleep_for(time - kLastLine);
    spdlog::error("the drain did not end in time: exiting");
    std::this_thread::sleep_for(kLastLine);
    _exit(3);
  }).detach();
}

// Calls `reload` at each SIGHUP that is none of `drain`; returns the signal of these that came.
int AwaitStop(const sigset_t& drain, const std::function<void()>& reload) {
  sigset_t awaited = drain;
  sigaddset(&awaited, SIGHUP);
  int signal = 0;
  while (sigwait(&awaited, &signal) == 0 && sigismember(&drain, signal) == 0) reload();
  return signal;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Build(const CommandLine& line, const sigset_t& stop,
                                                      Log& log, StartWatch& start) {
  std::unique_ptr<Server> server(new Server(line, &log));
  start.Begin("reading certificates and credentials");
  MEMORYD_RETURN_IF_ERROR(server->OpenFiles());
  MEMORYD_RETURN_IF_ERROR(server->OpenStore(stop, start));
  start.Begin("reading vocabularies and word vectors");
  MEMORYD_ASSIGN_OR_RETURN(std::shared_ptr<const WordVectors> word_vectors,
                           server->ReadVocabularies());
  start.Begin("beginning to serve");
  MEMORYD_RETURN_IF_ERROR(server->LimitMemory());
  MEMORYD_RETURN_IF_ERROR(server->MakeEngine(std::move(word_vectors)));
  server->MakeServices();
  return server;
}

Server::Server(const CommandLine& line, Log* log)
    : config_(line.config),
      log_(*log),
      start_us_(absl::ToUnixMicros(absl::Now())),
      store_errors_(log),
      tenants_(config_.tenants),
      call_log_(log, LoggedCallsOf(config_)),
      settings_({config_.tenants, config_.templates}),
      live_(line, log, &call_log_, &tenants_, &settings_) {}

absl::Status Server::OpenFiles() {
  MEMORYD_ASSIGN_OR_RETURN(access_, Access::Open(config_));
  if (!config_.audit_log.empty()) {
    MEMORYD_ASSIGN_OR_RETURN(audit_, AuditLog::Open(config_.audit_log));
  }
  if (!config_.otlp_endpoint.empty()) {
    MEMORYD_ASSIGN_OR_RETURN(spans_, MakeSpanExporter(config_.otlp_endpoint, Version()));
  }
  return absl::OkStatus();
}

absl::Status Server::OpenStore(const sigset_t& stop, StartWatch& start) {
  MEMORYD_ASSIGN_OR_RETURN(opened_, OpenMigratedStore(config_, stop, start));
  store_ = std::make_unique<ObservedStore>(
      opened_.get(), [this](StoreOperation operation, const absl::Status& error) {
        store_errors_.Note(operation, error);
      });
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const WordVectors>> Server::ReadVocabularies() const {
  // Read now, so that the first Put does not wait for it.
  if (auto counter = MakeTokenCounter("cl100k_base", config_.vocabulary_dir); !counter.ok()) {
    return counter.status();
  }
  CaptureProtobufLog();
  // Made before other threads are: ThreadSanitizer sees no order within Debian's library.
  google::protobuf::UnknownFieldSet::default_instance();
  return LoadWordVectors(config_.word_vectors);
}

absl::Status Server::LimitMemory() {
  memory_limit_ =
      config_.memory_limit_mib > 0 ? config_.memory_limit_mib << 20 : ContainerMemoryLimit();
  budget_ = std::make_unique<MemoryBudget>(MemoryBudgetFor(memory_limit_, ResidentBytes()));
  if (memory_limit_ > 0) {
    spdlog::info("memory: {} MiB of {} for what callers have the server hold",
                 budget_->limit() >> 20, memory_limit_ >> 20);
  }
  MEMORYD_ASSIGN_OR_RETURN(request_bytes_, RequestBytes(config_.max_request_mib, budget_->limit()));
  memory_ = std::make_unique<MemoryWatch>(memory_limit_, &ResidentBytes, budget_.get());
  return absl::OkStatus();
}

absl::Status Server::MakeEngine(std::shared_ptr<const WordVectors> word_vectors) {
  EngineParts parts;
  parts.config = &config_;
  parts.store = store_.get();
  parts.settings = &settings_;
  parts.memory = budget_.get();
  parts.word_vectors = std::move(word_vectors);
  parts.is_named = IsNamed();
  MEMORYD_ASSIGN_OR_RETURN(engine_, EngineAndModels::Make(parts));
  return absl::OkStatus();
}

void Server::MakeServices() {
  const ServicesOptions options{.engine = &engine_->engine(),
                                .workers = &engine_->workers(),
                                .model_usage = &engine_->model_usage(),
                                .facts = Facts(),
                                .wants_reflection = access_->wants_reflection(),
                                .guards_reflection = access_->guards_reflection()};
  services_ = std::make_unique<Services>(options, Environment());
}

CallEnvironment Server::Environment() {
  CallEnvironment environment;
  environment.calls = &calls_;
  environment.memory = memory_.get();
  environment.tenants = &tenants_;
  environment.authenticator = access_->authenticator();
  environment.stats = &stats_;
  environment.log = &call_log_;
  environment.audit = audit_.get();
  environment.spans = spans_.get();
  environment.owner_of = OwnerLookupOf(&engine_->engine().reads());
  return environment;
}

ServerFacts Server::Facts() const {
  return {.version = Version(),
          .revision = Revision(),
          .start_us = start_us_,
          .store_kind = FindStoreKind(config_.store)->scheme,
          .plaintext_beyond_loopback = config_.ListensInPlaintext(),
          .takes_tokens = config_.Authenticates(),
          .takes_certificates = !config_.tls_client_ca.empty(),
          .options = engine_->options(),
          .store = store_.get(),
          .request_bytes = request_bytes_,
          .item_bytes = ItemBytes(config_),
          .settings = &settings_};
}

ModelUsage::IsNamed Server::IsNamed() const {
  return [&tenants = config_.tenants,
          authenticator = access_->authenticator()](std::string_view tenant) {
    return authenticator == nullptr || tenants.exceptions.contains(tenant) ||
           authenticator->HasTenant(tenant);
  };
}

absl::StatusOr<Listening> Server::Listen() {
  spdlog::info("memoryd {}, revision {}", Version(), Revision());
  monitor_ = std::make_unique<HealthMonitor>(&engine_->engine(), store_.get(), memory_.get(),
                                             &services_->health());
  MEMORYD_RETURN_IF_ERROR(StartListeners());
  MEMORYD_RETURN_IF_ERROR(StartMetrics());
  Listening listening;
  listening.listen = rpc_server_->addresses();
  if (health_server_ != nullptr) listening.health = health_server_->addresses();
  if (http_server_ != nullptr) listening.http = http_server_->addresses();
  if (metrics_ != nullptr) listening.metrics = metrics_->address();
  return listening;
}

absl::Status Server::StartListeners() {
  MEMORYD_ASSIGN_OR_RETURN(
      rpc_server_,
      StartServer("listen",
                  RpcListenerOptions(config_, access_->tls(), budget_->limit(), request_bytes_),
                  &services_->methods(), budget_.get()));
  MEMORYD_RETURN_IF_ERROR(StartHttp());
  if (config_.health_listen.empty()) return absl::OkStatus();
  MEMORYD_ASSIGN_OR_RETURN(health_server_,
                           StartServer("health_listen", HealthListenerOptions(config_),
                                       &services_->health_methods(), budget_.get()));
  return absl::OkStatus();
}

absl::Status Server::StartHttp() {
  if (config_.http_listen.empty()) return absl::OkStatus();
  HttpServerOptions options;
  options.listener = HttpListenerOptions(config_, access_->tls(), budget_->limit(), request_bytes_);
  options.is_ready = [this] { return services_->health().IsServing("").value_or(false); };
  options.only_loopback_hosts =
      access_->authenticator() == nullptr && config_.tls_client_ca.empty();
  options.allowed_origins = config_.http_allowed_origins;
  auto started = StartHttpServer(std::move(options), &services_->methods(), budget_.get());
  if (!started.ok()) {
    return absl::Status(started.status().code(),
                        fmt::format("http_listen: {}", std::string(started.status().message())));
  }
  http_server_ = *std::move(started);
  return absl::OkStatus();
}

absl::Status Server::StartMetrics() {
  if (config_.metrics_listen.empty()) return absl::OkStatus();
  std::vector<const Http2Server*> rpc_servers = {rpc_server_.get()};
  if (http_server_ != nullptr) rpc_servers.push_back(http_server_.get());
  const MetricSources sources{.version = Version(),
                              .revision = Revision(),
                              .start_us = start_us_,
                              .calls = &stats_,
                              .in_flight = &calls_,
                              .rpc_servers = rpc_servers,
                              .memory = memory_.get(),
                              .tenants = &tenants_,
                              .engine = &engine_->engine(),
                              .store = store_.get(),
                              .log = &log_,
                              .models = engine_->configured_models(),
                              .workers = &engine_->workers(),
                              .audit = audit_.get(),
                              .jwt = access_->jwt(),
                              .tls = access_->tls(),
                              .model_usage = &engine_->model_usage(),
                              .spans = spans_.get(),
                              .budget = budget_.get(),
                              .is_named = IsNamed()};
  MEMORYD_ASSIGN_OR_RETURN(
      metrics_, MetricsListener::Start(config_.metrics_listen, MakeMetrics(sources), [this] {
        return services_->health().IsServing("").value_or(false);
      }));
  return absl::OkStatus();
}

void Server::Drain() {
  const auto grace = std::chrono::seconds(config_.drain_seconds);
  const TimePoint drained_by = std::chrono::steady_clock::now() + grace;
  EndProcessAfter(grace + kWatchdogMargin);
  monitor_->BeginDrain();
  services_->worker_service().BeginDrain();
  services_->watch_service().Drain();
  EndCalls(drained_by);
  CloseListeners();
  monitor_.reset();
  if (spans_ != nullptr) {
    spans_->Shutdown(std::min(drained_by, std::chrono::steady_clock::now() + kFlushSpans));
  }
  spdlog::info("drained");
}

void Server::EndCalls(TimePoint drained_by) {
  if (!calls_.Drain(drained_by)) {
    spdlog::warn("calls still wait for the store: ending them");
    engine_->engine().ExpirePending();
  }
  if (!services_->worker_service().EndStreams(std::chrono::steady_clock::now() + kEndWorkers)) {
    spdlog::warn("workers do not read: cutting them off");
  }
}

void Server::CloseListeners() {
  // Streams such as a health Watch never end by themselves: they get no more than the last replies
  // need to leave.
  const auto replies_left = std::chrono::steady_clock::now() + kFlushReplies;
  rpc_server_->Shutdown(replies_left);
  if (http_server_ != nullptr) http_server_->Shutdown(replies_left);
  if (health_server_ != nullptr) health_server_->Shutdown(replies_left);
}

absl::Status Serve(const CommandLine& line, const ReadAgain& read_again, const StopSignals& stop,
                   Log& log, StartWatch& start, const OnStarted& on_started) {
  MEMORYD_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server,
                           Server::Build(line, stop.drain, log, start));
  MEMORYD_ASSIGN_OR_RETURN(const Listening listening, server->Listen());
  start.End();
  on_started(listening);
  const int signal =
      AwaitStop(stop.drain, [&server, &read_again] { server->Reload(read_again()); });
  spdlog::info("signal {}: draining", signal);
  pthread_sigmask(SIG_UNBLOCK, &stop.at_once, nullptr);
  server->Drain();
  return absl::OkStatus();
}

}  // namespace memoryd
