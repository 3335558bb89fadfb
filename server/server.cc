#include "server/server.h"

#include <fmt/format.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "core/engine/engine.h"
#include "core/tokens/token_counter.h"
#include "server/calls_in_flight.h"
#include "server/health_monitor.h"
#include "server/memory_service.h"
#include "server/session_service.h"
#include "server/unary_call.h"

#ifndef MEMORYD_VERSION
#error "MEMORYD_VERSION comes from the build"
#endif

namespace memoryd {
namespace {

constexpr int kMaxRequestBytes = 4 << 20;
// Framing and the request's other fields.
constexpr int kRequestOverhead = 64 << 10;
constexpr std::chrono::seconds kStoreRetry(1);
constexpr std::chrono::milliseconds kFlushReplies(250);
// What ends a process whose drain hangs, for instance on a store that never answers.
constexpr std::chrono::seconds kWatchdogMargin(2);

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

EngineOptions EngineOptionsOf(const Config& config) {
  EngineOptions options;
  options.coherence = config.coherence;
  options.committers = config.committers;
  options.readers = config.readers;
  options.max_pending_calls = config.max_pending_calls;
  options.cache_bytes = static_cast<std::size_t>(config.cache_mib) << 20;
  options.vocabulary_directory = config.vocabulary_dir;
  options.now_us = &NowMicros;
  options.random = &RandomNumber;
  return options;
}

bool WantsReflection(const Config& config) {
  if (config.reflection != "auto") return config.reflection == "on";
  for (const std::string& address : config.listen) {
    if (!IsLocalAddress(address)) return false;
  }
  return true;
}

void SetLimits(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes + kRequestOverhead);
  builder.SetMaxSendMessageSize(-1);
  // A compressed request is inflated before its size is known.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 8 << 10);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 256);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 5000);
  // Two servers must not share a port without knowing.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

}  // namespace

const char* Version() { return MEMORYD_VERSION; }

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
    spdlog::warn("waiting for the store: {}", std::string(status.message()));
    const timespec wait{std::chrono::seconds(kStoreRetry).count(), 0};
    if (sigtimedwait(&stop, nullptr, &wait) > 0) return absl::CancelledError("stopped");
  }
}

absl::Status Serve(const Config& config, const sigset_t& stop) {
  MEMORYD_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, OpenMigratedStore(config, stop));
  // Read now, so that the first Put does not wait for it.
  if (auto counter = MakeTokenCounter("cl100k_base", config.vocabulary_dir); !counter.ok()) {
    return counter.status();
  }
  CaptureProtobufLog();
  Engine engine(store.get(), EngineOptionsOf(config));
  CallsInFlight calls;
  MemoryService memory_service(&engine, &calls);
  SessionService session_service(&engine, &calls);

  grpc::EnableDefaultHealthCheckService(true);
  if (WantsReflection(config)) grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetLimits(builder);
  builder.RegisterService(&memory_service);
  builder.RegisterService(&session_service);
  std::vector<int> ports(config.listen.size(), 0);
  for (std::size_t i = 0; i < config.listen.size(); ++i) {
    builder.AddListeningPort(config.listen[i], grpc::InsecureServerCredentials(), &ports[i]);
  }
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  for (std::size_t i = 0; i < config.listen.size(); ++i) {
    if (server != nullptr && ports[i] > 0) continue;
    if (server != nullptr) server->Shutdown();
    return absl::UnavailableError(fmt::format("can't listen on {}", config.listen[i]));
  }
  auto monitor = std::make_unique<HealthMonitor>(&engine, server->GetHealthCheckService());
  for (std::size_t i = 0; i < config.listen.size(); ++i) {
    const std::string& address = config.listen[i];
    const bool is_socket = address.starts_with("unix:");
    fmt::print("listening on {}\n",
               is_socket ? address
                         : fmt::format("{}:{}", address.substr(0, address.rfind(':')), ports[i]));
  }
  std::fflush(stdout);

  int signal = 0;
  sigwait(&stop, &signal);
  spdlog::info("signal {}: draining", signal);
  const auto grace = std::chrono::seconds(config.drain_seconds);
  std::thread([grace] {
    std::this_thread::sleep_for(grace + kWatchdogMargin);
    spdlog::error("the drain did not end in time: exiting");
    _exit(3);
  }).detach();
  monitor->BeginDrain();
  if (!calls.Drain(std::chrono::steady_clock::now() + grace)) {
    spdlog::warn("calls still wait for the store: ending them");
    engine.ExpirePending();
  }
  // Streams such as a health Watch never end by themselves: they get no more than the last replies
  // need to leave.
  server->Shutdown(std::chrono::system_clock::now() + kFlushReplies);
  monitor.reset();
  spdlog::info("drained");
  return absl::OkStatus();
}

}  // namespace memoryd
