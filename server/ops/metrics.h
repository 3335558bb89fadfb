// What Prometheus is told.
#ifndef MEMORYD_SERVER_OPS_METRICS_H_
#define MEMORYD_SERVER_OPS_METRICS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "core/base/memory_budget.h"
#include "core/engine/engine.h"
#include "core/llm/configured_models.h"
#include "core/storage/observed_store.h"
#include "core/workers/worker_registry.h"
#include "server/access/jwt_verifier.h"
#include "server/access/tenant_limiter.h"
#include "server/http2/http2_server.h"
#include "server/ops/audit_log.h"
#include "server/ops/call_stats.h"
#include "server/ops/calls_in_flight.h"
#include "server/ops/log.h"
#include "server/ops/memory_watch.h"
#include "server/ops/model_usage.h"
#include "server/ops/span_exporter.h"
#include "server/settings/tls_files.h"

namespace prometheus {
class Collectable;
}  // namespace prometheus

namespace memoryd {

// What is measured; outlives whoever reads it.
struct MetricSources {
  std::string_view version;
  std::string_view revision;
  std::int64_t start_us = 0;
  const CallStats* calls = nullptr;
  const CallsInFlight* in_flight = nullptr;
  std::vector<const Http2Server*> rpc_servers;  // Whose connections are counted, together.
  const MemoryWatch* memory = nullptr;
  const TenantLimiter* tenants = nullptr;
  Engine* engine = nullptr;
  const ObservedStore* store = nullptr;
  const Log* log = nullptr;
  const ConfiguredModels* models = nullptr;  // Null: the server has none.
  const WorkerRegistry* workers = nullptr;
  const AuditLog* audit = nullptr;   // Null: none is kept.
  const JwtVerifier* jwt = nullptr;  // Null: no JSON Web Token is a credential.
  const TlsFiles* tls = nullptr;     // Null: no address has TLS.
  const ModelUsage* model_usage = nullptr;
  const SpanExporter* spans = nullptr;  // Null: none are exported.
  MemoryBudget* budget = nullptr;       // Null: nothing is counted.
  // Whether a tenant is one of a closed set, whose names may stand in metrics; null: none is.
  std::function<bool(std::string_view tenant)> is_named = nullptr;
};

// Reads the sources anew for each scrape. Every label is one of a closed set, a model of the
// settings, or a tenant of theirs or of the credentials file, see ModelUsage::All(): no name of a
// session, nothing that a caller sent.
std::unique_ptr<prometheus::Collectable> MakeMetrics(const MetricSources& sources);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_OPS_METRICS_H_
