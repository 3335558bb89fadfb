// Builds, runs and drains a server.
#ifndef MEMORYD_SERVER_SERVER_H_
#define MEMORYD_SERVER_SERVER_H_

#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/retrieval/word_vectors.h"
#include "core/storage/observed_store.h"
#include "server/access.h"
#include "server/access/tenant_limiter.h"
#include "server/announcement.h"
#include "server/command_line.h"
#include "server/engine_and_models.h"
#include "server/http2/http2_server.h"
#include "server/live_settings.h"
#include "server/ops/audit_log.h"
#include "server/ops/call_log.h"
#include "server/ops/call_stats.h"
#include "server/ops/calls_in_flight.h"
#include "server/ops/log.h"
#include "server/ops/memory_watch.h"
#include "server/ops/metrics_listener.h"
#include "server/ops/model_usage.h"
#include "server/ops/span_exporter.h"
#include "server/ops/store_error_log.h"
#include "server/rpc/health_monitor.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_call.h"
#include "server/start_watch.h"

namespace memoryd {

// A server between its settings and its end: Build(), Listen(), Reload() any number of times,
// Drain(), in this order and from one thread.
//
// It owns all that serves, and each member may use those above it. They end from the last to the
// first: listeners, so that no call comes; the health monitor; the services; the engine, which
// finishes what was admitted; then what calls are counted and logged by, the store, the exporter of
// spans, the audit log and access. An error of Build() or Listen() ends in the same order what
// there is by then.
class Server {
 public:
  // Opens the store, waiting for one that can't be reached until one of `stop` is pending
  // (CANCELLED), and makes all that serves. Nothing listens yet. INVALID_ARGUMENT names the setting
  // that can't be had. `line` and `log` outlive the server; `start` learns what the start is at.
  static absl::StatusOr<std::unique_ptr<Server>> Build(const CommandLine& line,
                                                       const sigset_t& stop, Log& log,
                                                       StartWatch& start);
  ~Server() = default;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Serves from now on, and says where. UNAVAILABLE names the setting whose address can't be
  // listened on.
  absl::StatusOr<Listening> Listen();

  // What was read again comes into force as far as it can, see LiveSettings.
  void Reload(const absl::StatusOr<CommandLine>& line) { live_.Reload(line); }

  // Health NOT_SERVING, no new calls; those under way end within `drain_seconds`. Ends the process
  // when it takes two seconds more.
  void Drain();

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  Server(const CommandLine& line, Log* log);

  // The steps of Build(), in their order.
  absl::Status OpenFiles();
  absl::Status OpenStore(const sigset_t& stop, StartWatch& start);
  absl::StatusOr<std::shared_ptr<const WordVectors>> ReadVocabularies() const;
  absl::Status LimitMemory();
  absl::Status MakeEngine(std::shared_ptr<const WordVectors> word_vectors);
  void MakeServices();

  CallEnvironment Environment();
  ServerFacts Facts() const;
  // Whether the name of a tenant may stand in metrics.
  ModelUsage::IsNamed IsNamed() const;
  absl::Status StartListeners();
  absl::Status StartHttp();
  absl::Status StartMetrics();
  void EndCalls(TimePoint drained_by);
  void CloseListeners();

  const Config& config_;
  Log& log_;
  const std::int64_t start_us_;
  std::unique_ptr<Access> access_;
  std::unique_ptr<AuditLog> audit_;      // Null: none is kept.
  std::unique_ptr<SpanExporter> spans_;  // Null: none are exported.
  std::unique_ptr<Store> opened_;
  StoreErrorLog store_errors_;
  std::unique_ptr<ObservedStore> store_;
  std::int64_t memory_limit_ = 0;   // Of the process, in bytes; 0 for none.
  std::int64_t request_bytes_ = 0;  // The most of a request.
  std::unique_ptr<MemoryBudget> budget_;
  CallsInFlight calls_;
  std::unique_ptr<MemoryWatch> memory_;
  TenantLimiter tenants_;
  CallStats stats_;
  CallLog call_log_;
  SettingsInForce settings_;
  LiveSettings live_;
  std::unique_ptr<EngineAndModels> engine_;
  std::unique_ptr<Services> services_;
  std::unique_ptr<HealthMonitor> monitor_;
  std::unique_ptr<Http2Server> rpc_server_;
  std::unique_ptr<Http2Server> http_server_;    // Null: there is none.
  std::unique_ptr<Http2Server> health_server_;  // Null: health has no address of its own.
  std::unique_ptr<MetricsListener> metrics_;    // Null: none are listened for.
};

// What ends a server. Every thread must have blocked them.
struct StopSignals {
  sigset_t drain;    // The first of these begins the drain.
  sigset_t at_once;  // During the drain these do what they do by default: end the process.
};

// What the command line says now, when the file may say something else than before.
using ReadAgain = std::function<absl::StatusOr<CommandLine>()>;

// Called once all listen.
using OnStarted = std::function<void(const Listening& listening)>;

// Serves until one of `stop`, then drains. At each SIGHUP that is none of `stop` what `read_again`
// gives comes into force as far as it can; that too every thread must have blocked. `start` learns
// what the start is at.
absl::Status Serve(const CommandLine& line, const ReadAgain& read_again, const StopSignals& stop,
                   Log& log, StartWatch& start, const OnStarted& on_started);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_SERVER_H_
