#include "server/ops/metrics.h"

#include <fmt/format.h>
#include <prometheus/collectable.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/histogram.h"
#include "core/base/memory_budget.h"
#include "core/blocks/block_kinds.h"
#include "core/calls/engine_stats.h"
#include "core/llm/model_stats.h"
#include "core/storage/observed_store.h"
#include "core/storage/store.h"
#include "core/workers/worker_call.h"
#include "core/workers/worker_registry.h"
#include "core/workers/worker_stats.h"
#include "server/access/jwt_failure.h"
#include "server/http2/http2_server.h"
#include "server/http2/http2_stats.h"
#include "server/ops/call_stats.h"
#include "server/ops/metric_family.h"
#include "server/ops/span_exporter.h"
#include "server/wire/method.h"

namespace memoryd {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr double kNanosecondsPerSecond = 1e9;
constexpr double kMicrosecondsPerSecond = 1e6;
// As long as health takes the last good answer for good.
constexpr std::chrono::seconds kUpFor(3);
constexpr std::string_view kDurabilities[] = {"NONE", "LOCAL", "REPLICATED"};

double Number(std::uint64_t count) { return static_cast<double>(count); }

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) +
           static_cast<double>(time.tv_usec) / kMicrosecondsPerSecond;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Those that looking for them opens included.
double OpenDescriptors() {
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  return error ? 0 : static_cast<double>(std::distance(begin(open), end(open)));
}

double MaxDescriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<double>(limit.rlim_cur);
}

class Metrics final : public prometheus::Collectable {
 public:
  explicit Metrics(const MetricSources& sources) : sources_(sources) {}

  std::vector<MetricFamily> Collect() const override {
    MetricFamilies families;
    AddCalls(families);
    AddRefusals(families);
    AddBesideCalls(families);
    AddConnections(families);
    AddEngine(families);
    AddStore(families);
    AddJobs(families);
    AddModels(families);
    AddWorkers(families);
    AddMemory(families);
    AddProcess(families);
    return families.Take();
  }

 private:
  // Sums over the connections of all ports.
  template <typename Count>
  double Sum(Count count) const {
    double sum = 0;
    for (const Http2Server* const server : sources_.rpc_servers) {
      sum += static_cast<double>(count(*server));
    }
    return sum;
  }

  void AddConnections(MetricFamilies& families) const {
    if (sources_.rpc_servers.empty()) return;
    const auto ended_by = [this](ConnectionEnd end) {
      return Sum([end](const Http2Server& server) { return server.stats().ended(end); });
    };
    Family(families, "memoryd_connections", MetricType::Gauge, "Connections that are open.")
        .Add(Sum([](const Http2Server& server) { return server.stats().open(); }));
    Family ended(families, "memoryd_connections_ended_total", MetricType::Counter,
                 "Connections closed or refused, by reason.");
    for (std::size_t i = 0; i < kConnectionEnds.size(); ++i) {
      ended.Add(ended_by(static_cast<ConnectionEnd>(i)), {Label("reason", kConnectionEnds[i])});
    }
    Family(families, "memoryd_tls_handshake_failures_total", MetricType::Counter,
           "TLS handshakes that failed: no TLS, an old one, or a certificate that is not good.")
        .Add(ended_by(ConnectionEnd::kHandshake));
    Family(families, "memoryd_unauthenticated_bytes", MetricType::Gauge,
           "Memory that connections and callers without a tenant hold, by estimate.")
        .Add(Sum([](const Http2Server& server) { return server.unauthenticated_held(); }));
    Family given_up(families, "memoryd_rpc_given_up_total", MetricType::Counter,
                    "Requests that stopped coming, and replies that were not read in time.");
    given_up.Add(Sum([](const Http2Server& server) { return server.stats().half_requests(); }),
                 {Label("part", "request")});
    given_up.Add(Sum([](const Http2Server& server) { return server.stats().unread_replies(); }),
                 {Label("part", "reply")});
  }

  void AddCalls(MetricFamilies& families) const {
    const CallStats& calls = *sources_.calls;
    Family total(families, "memoryd_rpc_total", MetricType::Counter,
                 "Calls ended, by method and code.");
    Family seconds(families, "memoryd_rpc_seconds", MetricType::Histogram,
                   "From the arrival of a call to its reply.");
    Family unknown(families, "memoryd_rpc_unknown_fields_total", MetricType::Counter,
                   "Calls whose request had fields that this server does not know.");
    for (std::size_t i = 0; i < kMethods.size(); ++i) {
      const auto method = static_cast<Method>(i);
      const ClientMetric::Label name = Label("method", kMethods[i].name);
      for (std::size_t code = 0; code < kStatusCodes; ++code) {
        const std::uint64_t ended = calls.ended(method, code);
        if (ended == 0 && code != 0) continue;
        total.Add(
            Number(ended),
            {name, Label("code", absl::StatusCodeToString(static_cast<absl::StatusCode>(code)))});
      }
      seconds.Add(calls.seconds(method), kNanosecondsPerSecond, {name});
      if (calls.unknown_fields(method) > 0 || i == 0) {
        unknown.Add(Number(calls.unknown_fields(method)), {name});
      }
    }
    Family(families, "memoryd_rpc_in_flight", MetricType::Gauge,
           "Calls that have not been answered yet.")
        .Add(static_cast<double>(sources_.in_flight->count()));
  }

  void AddRefusals(MetricFamilies& families) const {
    const CallStats& calls = *sources_.calls;
    const EngineStats& engine = sources_.engine->stats();
    Family rejected(families, "memoryd_admission_rejected_total", MetricType::Counter,
                    "Calls refused before anything was started.");
    rejected.Add(Number(engine.refused_calls), {Label("reason", "queue_full")});
    rejected.Add(Number(engine.refused_bytes), {Label("reason", "bytes")});
    rejected.Add(Number(engine.refused_late), {Label("reason", "late")});
    rejected.Add(Number(calls.refused_draining()), {Label("reason", "draining")});
    rejected.Add(Number(calls.refused_metadata()), {Label("reason", "metadata")});
    rejected.Add(Number(sources_.tenants->refused_rate()), {Label("reason", "tenant_rate")});
    rejected.Add(Number(sources_.tenants->refused_in_flight()),
                 {Label("reason", "tenant_calls_in_flight")});
    rejected.Add(Number(sources_.tenants->refused_watches()), {Label("reason", "tenant_watches")});
    rejected.Add(Number(sources_.memory->refused()), {Label("reason", "memory")});
    Family quotas(families, "memoryd_quota_rejected_total", MetricType::Counter,
                  "Writes that would have gone over a quota of their tenant.");
    quotas.Add(Number(engine.refused_sessions), {Label("quota", "sessions")});
    quotas.Add(Number(engine.refused_messages), {Label("quota", "messages")});
    quotas.Add(Number(engine.refused_stored_bytes), {Label("quota", "bytes")});
    Family auth(families, "memoryd_auth_failures_total", MetricType::Counter,
                "Calls refused for their credential.");
    for (std::size_t i = 0; i < kAuthFailures.size(); ++i) {
      auth.Add(Number(calls.auth_failures(i)), {Label("reason", kAuthFailures[i])});
    }
  }

  void AddBesideCalls(MetricFamilies& families) const {
    if (const auto tls = sources_.tls == nullptr ? nullptr : sources_.tls->material()) {
      Family(families, "memoryd_tls_certificate_expiry_seconds", MetricType::Gauge,
             "When the server's certificate ends, in seconds since the epoch.")
          .Add(static_cast<double>(tls->expires_s));
    }
    if (sources_.audit != nullptr) {
      Family(families, "memoryd_audit_lost_total", MetricType::Counter,
             "Lines of the audit log that were lost.")
          .Add(Number(sources_.audit->lost()));
    }
    if (sources_.spans != nullptr) {
      const SpanCounts spans = sources_.spans->counts();
      Family ended(families, "memoryd_spans_total", MetricType::Counter,
                   "Spans of calls, by what became of them.");
      ended.Add(Number(spans.exported), {Label("result", "exported")});
      ended.Add(Number(spans.failed), {Label("result", "failed")});
      ended.Add(Number(spans.dropped), {Label("result", "dropped")});
    }
    if (sources_.jwt != nullptr) {
      Family tokens(families, "memoryd_jwt_refused_total", MetricType::Counter,
                    "JSON Web Tokens that were not taken, by reason.");
      for (std::size_t i = 0; i < kJwtFailures.size(); ++i) {
        tokens.Add(Number(sources_.jwt->refused(static_cast<JwtFailure>(i))),
                   {Label("reason", kJwtFailures[i])});
      }
    }
    Family(families, "memoryd_request_replays_total", MetricType::Counter,
           "Writes answered with the stored reply to an earlier request.")
        .Add(Number(sources_.engine->stats().replays));
  }

  void AddEngine(MetricFamilies& families) const {
    Engine& engine = *sources_.engine;
    const EngineStats& stats = engine.stats();
    Family(families, "memoryd_pending_calls", MetricType::Gauge, "Calls that wait for the store.")
        .Add(static_cast<double>(engine.pending_calls()));
    Family(families, "memoryd_pending_bytes", MetricType::Gauge, "Bytes of the writes that wait.")
        .Add(static_cast<double>(engine.pending_bytes()));
    Family(families, "memoryd_cancelled_reads_total", MetricType::Counter,
           "Reads whose caller was gone before the store was asked.")
        .Add(Number(stats.cancelled_reads));
    Family(families, "memoryd_commit_batch_writes", MetricType::Histogram,
           "Writes that went to the store together.")
        .Add(stats.batch_writes.Snapshot(), 1);
    Family(families, "memoryd_expired_sessions_total", MetricType::Counter,
           "Sessions that this server deleted since their time was over.")
        .Add(Number(stats.expired_sessions));
    Family(families, "memoryd_retired_messages_total", MetricType::Counter,
           "Messages that this server took out of sessions by their retention.")
        .Add(Number(stats.retired_messages));
    Family(families, "memoryd_lost_touches_total", MetricType::Counter,
           "Reads that did not count for their session's time, since too many waited.")
        .Add(Number(stats.lost_touches));
    Family(families, "memoryd_due_sessions", MetricType::Gauge,
           "Sessions that the sweep found due, as far as it looks at once.")
        .Add(static_cast<double>(stats.due_sessions.load(std::memory_order_relaxed)));
    Family(families, "memoryd_due_sessions_seconds", MetricType::Gauge,
           "For how long the first of them was due.")
        .Add(static_cast<double>(stats.due_for_us.load(std::memory_order_relaxed)) /
             kMicrosecondsPerSecond);
    Family(families, "memoryd_cache_sessions", MetricType::Gauge, "Sessions in memory.")
        .Add(Number(engine.cache().SessionCount()));
    Family(families, "memoryd_cache_bytes", MetricType::Gauge, "Bytes of the sessions in memory.")
        .Add(Number(engine.cache().ByteSize()));
    Family(families, "memoryd_index_bytes", MetricType::Gauge,
           "Bytes of the search indexes in memory.")
        .Add(Number(engine.search().ByteSize()));
    Family(families, "memoryd_index_evictions_total", MetricType::Counter,
           "Search indexes that left memory for want of room.")
        .Add(Number(engine.search().evictions()));
    Family(families, "memoryd_cache_hits_total", MetricType::Counter,
           "Calls whose session was in memory.")
        .Add(Number(stats.cache_hits));
    Family(families, "memoryd_cache_misses_total", MetricType::Counter,
           "Calls whose session had to be read.")
        .Add(Number(stats.cache_misses));
    Family(families, "memoryd_cache_stale_total", MetricType::Counter,
           "Calls whose session another server had changed, so that it was read anew.")
        .Add(Number(stats.cache_stale));
    Family(families, "memoryd_cache_evictions_total", MetricType::Counter,
           "Sessions that left memory for want of room.")
        .Add(Number(engine.cache().evictions()));
  }

  void AddJobs(MetricFamilies& families) const {
    Engine& engine = *sources_.engine;
    const EngineStats& stats = engine.stats();
    const BlockStats& blocks = engine.block_stats();
    Family(families, "memoryd_jobs_held", MetricType::Gauge,
           "Jobs that feed blocks, leased to this server.")
        .Add(Number(engine.jobs().held()));
    Family ended(families, "memoryd_jobs_ended_total", MetricType::Counter,
                 "Jobs that this server ended, by state.");
    ended.Add(Number(stats.jobs_done), {Label("state", "DONE")});
    ended.Add(Number(stats.jobs_failed), {Label("state", "FAILED")});
    Family(families, "memoryd_job_attempt_failures_total", MetricType::Counter,
           "Attempts of jobs that failed, the last ones included.")
        .Add(Number(stats.job_failures));
    Family(families, "memoryd_job_memory_waits_total", MetricType::Counter,
           "Attempts of jobs that were put off since there was no memory for them.")
        .Add(Number(stats.jobs_short_of_memory));
    Family(families, "memoryd_block_answers_total", MetricType::Counter,
           "Answers of chat models to blocks.")
        .Add(Number(blocks.answers));
    Family rejected(families, "memoryd_block_answers_rejected_total", MetricType::Counter,
                    "Answers of chat models that changed nothing.");
    rejected.Add(Number(blocks.unreadable_answers), {Label("reason", "unreadable")});
    rejected.Add(Number(blocks.refused_condensings), {Label("reason", "loses_facts")});
  }

  void AddWorkers(MetricFamilies& families) const {
    const WorkerRegistry& workers = *sources_.workers;
    const WorkerStats& stats = workers.stats();
    Family(families, "memoryd_workers", MetricType::Gauge, "Workers attached.")
        .Add(Number(workers.attached()));
    Family(families, "memoryd_worker_calls_waiting", MetricType::Gauge,
           "Calls that wait for a worker to have room.")
        .Add(Number(workers.waiting()));
    Family(families, "memoryd_worker_calls_in_flight", MetricType::Gauge,
           "Calls to workers that have not ended.")
        .Add(Number(workers.open_calls()));
    Family total(families, "memoryd_worker_calls_total", MetricType::Counter,
                 "Calls to workers ended, by kind and code.");
    Family seconds(families, "memoryd_worker_call_seconds", MetricType::Histogram,
                   "Calls to workers, with the wait for one that has room.");
    for (std::size_t kind = 0; kind < kWorkerCallKinds.size(); ++kind) {
      const ClientMetric::Label name = Label("kind", kWorkerCallKinds[kind]);
      for (std::size_t code = 0; code < kWorkerCallCodes; ++code) {
        const std::uint64_t ended = stats.ended(kind, code);
        if (ended == 0 && code != 0) continue;
        total.Add(
            Number(ended),
            {name, Label("code", absl::StatusCodeToString(static_cast<absl::StatusCode>(code)))});
      }
      seconds.Add(stats.seconds(kind), kNanosecondsPerSecond, {name});
    }
    Family(families, "memoryd_worker_results_ignored_total", MetricType::Counter,
           "Results of workers that nobody waited for any more.")
        .Add(Number(stats.ignored_results()));
  }

  void AddStore(MetricFamilies& families) const {
    const StoreStats& stats = sources_.store->stats();
    const HistogramSnapshot commits =
        stats.seconds[static_cast<std::size_t>(StoreOperation::kCommit)].Snapshot();
    std::uint64_t batches = 0;
    for (const std::uint64_t count : commits.counts) batches += count;
    Family(families, "memoryd_commit_batches_total", MetricType::Counter,
           "Batches sent to the store.")
        .Add(Number(batches));
    Family(families, "memoryd_commit_seconds", MetricType::Histogram,
           "A batch, from sent to answered.")
        .Add(commits, kNanosecondsPerSecond);
    Family(families, "memoryd_commit_batch_sessions", MetricType::Histogram,
           "Sessions that a batch changes.")
        .Add(stats.batch_sessions.Snapshot(), 1);
    Family outcomes(families, "memoryd_commit_outcomes_total", MetricType::Counter,
                    "Sessions in batches, by what became of their change.");
    for (std::size_t i = 0; i < kCommitOutcomes.size(); ++i) {
      outcomes.Add(Number(stats.outcomes[i]), {Label("outcome", kCommitOutcomes[i])});
    }
    Family in_doubt(families, "memoryd_commit_in_doubt_total", MetricType::Counter,
                    "Those of them whose answer was lost, by what was found out afterwards.");
    for (std::size_t i = 0; i < kCommitOutcomes.size(); ++i) {
      in_doubt.Add(Number(stats.in_doubt[i]), {Label("outcome", kCommitOutcomes[i])});
    }
    Family seconds(families, "memoryd_store_seconds", MetricType::Histogram, "Calls to the store.");
    Family errors(families, "memoryd_store_errors_total", MetricType::Counter,
                  "Calls to the store that failed.");
    for (std::size_t i = 0; i < kStoreOperations.size(); ++i) {
      const MetricLabels labels = {Label("operation", kStoreOperations[i])};
      seconds.Add(stats.seconds[i].Snapshot(), kNanosecondsPerSecond, labels);
      errors.Add(Number(stats.errors[i]), labels);
    }
    Family classes(families, "memoryd_store_error_classes_total", MetricType::Counter,
                   "Calls to the store that failed, by the class of what it said.");
    for (std::size_t i = 0; i < kStoreErrorClasses.size(); ++i) {
      classes.Add(Number(stats.error_classes[i]), {Label("class", kStoreErrorClasses[i])});
    }
    Family(families, "memoryd_checksum_failures_total", MetricType::Counter,
           "Reads that met a stored message which is not what was written.")
        .Add(Number(stats.checksum_failures));
    Family(families, "memoryd_purged_rows_total", MetricType::Counter, "Rows deleted behind.")
        .Add(Number(stats.purged_rows));
    Family(families, "memoryd_store_up", MetricType::Gauge, "1 while the store answers.")
        .Add(sources_.store->AnsweredWithin(kUpFor) ? 1 : 0);
    const StoreInfo info = sources_.store->info();
    Family durability(families, "memoryd_store_durability", MetricType::Gauge,
                      "1 for what the store promises; all 0 while that is not known.");
    for (std::size_t i = 0; i < std::size(kDurabilities); ++i) {
      const bool is = !info.kind.empty() && static_cast<std::size_t>(info.durability) == i;
      durability.Add(is ? 1 : 0, {Label("class", kDurabilities[i])});
    }
    Family(families, "memoryd_store_schema_version", MetricType::Gauge,
           "The version of the schema.")
        .Add(static_cast<double>(info.schema_version));
    Family(families, "memoryd_store_unnamed_statements_total", MetricType::Counter,
           "Statements that PostgreSQL planned anew, since they had no name.")
        .Add(static_cast<double>(info.unnamed_statements));
  }

  void AddModelUsage(MetricFamilies& families) const {
    if (sources_.model_usage == nullptr) return;
    Family calls(families, "memoryd_tenant_model_calls_total", MetricType::Counter,
                 "Calls of models that were answered, by tenant.");
    Family tokens(families, "memoryd_tenant_model_tokens_total", MetricType::Counter,
                  "Tokens, as the models count them, by tenant.");
    Family refused(families, "memoryd_model_budget_rejected_total", MetricType::Counter,
                   "Times that no model was asked since the tenant's budget is used up.");
    for (const auto& [name, series] : sources_.model_usage->All()) {
      const ClientMetric::Label tenant = Label("tenant", name);
      calls.Add(static_cast<double>(series.total.calls), {tenant});
      tokens.Add(static_cast<double>(series.total.prompt_tokens),
                 {tenant, Label("kind", "prompt")});
      tokens.Add(static_cast<double>(series.total.completion_tokens),
                 {tenant, Label("kind", "completion")});
      refused.Add(Number(series.refused), {tenant});
    }
  }

  void AddModels(MetricFamilies& families) const {
    AddModelUsage(families);
    if (sources_.models == nullptr) return;
    Family calls(families, "memoryd_model_calls_total", MetricType::Counter,
                 "Calls to models ended, by code.");
    Family seconds(families, "memoryd_model_seconds", MetricType::Histogram,
                   "A call to a model, with its waits and all its attempts.");
    Family attempts(families, "memoryd_model_attempts_total", MetricType::Counter,
                    "Requests that reached a model.");
    Family retries(families, "memoryd_model_retries_total", MetricType::Counter,
                   "Requests to models that were made again.");
    Family tokens(families, "memoryd_model_tokens_total", MetricType::Counter,
                  "Tokens, as the models count them.");
    Family open(families, "memoryd_model_calls_open", MetricType::Gauge,
                "Calls to models under way or waiting.");
    sources_.models->VisitStats([&](const std::string& name, const ModelStats& stats) {
      const ClientMetric::Label model = Label("model", name);
      for (std::size_t code = 0; code < stats.calls.size(); ++code) {
        const std::uint64_t ended = stats.calls[code];
        if (ended == 0 && code != 0) continue;
        calls.Add(
            Number(ended),
            {model, Label("code", absl::StatusCodeToString(static_cast<absl::StatusCode>(code)))});
      }
      seconds.Add(stats.seconds.Snapshot(), kNanosecondsPerSecond, {model});
      attempts.Add(Number(stats.attempts), {model});
      retries.Add(Number(stats.retries), {model});
      tokens.Add(Number(stats.prompt_tokens), {model, Label("kind", "prompt")});
      tokens.Add(Number(stats.completion_tokens), {model, Label("kind", "completion")});
      open.Add(static_cast<double>(stats.open), {model});
    });
  }

  void AddMemory(MetricFamilies& families) const {
    if (sources_.budget == nullptr) return;
    MemoryBudget& budget = *sources_.budget;
    Family(families, "memoryd_memory_budget_bytes", MetricType::Gauge,
           "What callers may have the server hold; 0 where nothing limits it.")
        .Add(static_cast<double>(budget.limit()));
    Family held(families, "memoryd_memory_held_bytes", MetricType::Gauge,
                "What the server holds for callers, by use.");
    Family refused(families, "memoryd_memory_refused_total", MetricType::Counter,
                   "Times that the budget had no room, by what it was asked for.");
    const MemoryByUse by_use = budget.HeldByUse();
    for (std::size_t i = 0; i < kMemoryUses.size(); ++i) {
      const MetricLabels use = {Label("use", kMemoryUses[i])};
      held.Add(static_cast<double>(by_use[i]), use);
      refused.Add(Number(budget.refused(static_cast<MemoryUse>(i))), use);
    }
    Family evicted(families, "memoryd_memory_evicted_bytes_total", MetricType::Counter,
                   "Bytes that left caches since the budget had no room, by use.");
    for (std::size_t i = 0; i < kMemoryUses.size(); ++i) {
      const auto use = static_cast<MemoryUse>(i);
      if (IsCache(use)) {
        evicted.Add(Number(budget.evicted_bytes(use)), {Label("use", kMemoryUses[i])});
      }
    }
    std::map<std::string, MemoryByUse, std::less<>> tenants;
    for (const MemoryBudget::TenantMemory& tenant : budget.Tenants()) {
      const bool is_named = tenants.size() < ModelUsage::kMaxNames && sources_.is_named &&
                            sources_.is_named(tenant.tenant);
      MemoryByUse& sum = tenants[is_named ? tenant.tenant : std::string(ModelUsage::kOthers)];
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += tenant.held[i];
    }
    if (tenants.empty()) return;
    Family by_tenant(families, "memoryd_tenant_memory_bytes", MetricType::Gauge,
                     "What the server holds for callers, by tenant and use.");
    for (const auto& [name, sum] : tenants) {
      for (std::size_t i = 0; i < sum.size(); ++i) {
        by_tenant.Add(static_cast<double>(sum[i]),
                      {Label("tenant", name), Label("use", kMemoryUses[i])});
      }
    }
  }

  void AddProcess(MetricFamilies& families) const {
    Family(families, "memoryd_exceptions_total", MetricType::Counter,
           "Exceptions caught in the server's threads.")
        .Add(Number(sources_.engine->stats().exceptions) +
             Sum([](const Http2Server& server) { return server.stats().exceptions(); }));
    Family(families, "process_cpu_seconds_total", MetricType::Counter,
           "Processor time of the process, of users and system.")
        .Add(CpuSeconds());
    Family(families, "process_open_fds", MetricType::Gauge, "Descriptors that are open.")
        .Add(OpenDescriptors());
    Family(families, "process_max_fds", MetricType::Gauge, "Descriptors that may be open.")
        .Add(MaxDescriptors());
    Family(families, "process_resident_memory_bytes", MetricType::Gauge,
           "Memory of the process, as it was looked at last.")
        .Add(static_cast<double>(sources_.memory->used()));
    Family(families, "memoryd_memory_limit_bytes", MetricType::Gauge,
           "What the process may take; 0 where nothing limits it.")
        .Add(static_cast<double>(sources_.memory->limit()));
    Family(families, "memoryd_log_dropped_total", MetricType::Counter,
           "Lines of the log that nobody took in time.")
        .Add(Number(sources_.log->dropped()));
    Family(families, "memoryd_build_info", MetricType::Gauge,
           "1, with version and commit as labels.")
        .Add(1, {Label("version", sources_.version), Label("revision", sources_.revision)});
    Family(families, "process_start_time_seconds", MetricType::Gauge,
           "When the server began, in seconds since the epoch.")
        .Add(static_cast<double>(sources_.start_us) / kMicrosecondsPerSecond);
  }

  const MetricSources sources_;
};

}  // namespace

std::unique_ptr<prometheus::Collectable> MakeMetrics(const MetricSources& sources) {
  return std::make_unique<Metrics>(sources);
}

}  // namespace memoryd
