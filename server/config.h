// What the server is told to do.
#ifndef MEMORYD_SERVER_CONFIG_H_
#define MEMORYD_SERVER_CONFIG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/llm/model_settings.h"
#include "core/storage/stores.h"
#include "server/access/jwt_verifier.h"
#include "server/access/session_templates.h"
#include "server/access/tenant_limits.h"

namespace memoryd {

// Every field is checked but for `templates`, see CheckTemplates(); docs/SETTINGS.md has the table.
struct Config {
  std::vector<std::string> listen;  // `HOST:PORT` or `unix:PATH`; port 0 picks a free one.
  bool allow_plaintext = false;     // Listen without TLS beyond loopback.
  std::string tls_cert;             // Empty: no TLS. Else every TCP address of `listen` has it.
  std::string tls_key;
  std::string tls_client_ca;               // Empty: clients need no certificate.
  std::string credentials;                 // Empty: none but those that `jwt` takes.
  JwtSettings jwt;                         // Without `jwks_file`: no JSON Web Tokens.
  std::vector<std::string> health_listen;  // Plaintext, health only; may be empty.
  std::string store;                       // See StoreOptions::url.
  std::string accept_lost_commits;         // See StoreOptions.
  Coherence coherence = Coherence::kExclusive;
  int committers = 0;
  int readers = 0;
  int searchers = 0;
  int store_timeout_ms = 0;
  Pooling transaction_pooling = Pooling::kNone;
  std::int64_t max_pending_calls = 0;
  std::int64_t cache_mib = 0;
  std::int64_t active_mib = 0;
  std::int64_t index_mib = 0;
  std::int64_t vector_mib = 0;
  int block_timeout_ms = 0;
  int sweep_interval_ms = 0;
  int max_running_jobs = 0;
  int job_attempts = 0;
  int job_retry_ms = 0;
  int job_lease_ms = 0;
  int job_timeout_ms = 0;
  std::int64_t memory_limit_mib = 0;  // 0: the container's, if it has one.
  std::int64_t max_request_mib = 0;   // See RequestBytes().
  std::int64_t max_item_mib = 0;      // See ItemBytes().
  int rpc_threads = 0;                // 0: as many as suit the machine.
  int max_connections = 0;
  int max_connections_per_address = 0;
  unsigned unix_socket_mode = 0;
  int max_connection_age_s = 0;  // 0: connections may grow as old as they like.
  int max_connection_age_grace_s = 0;
  std::string vocabulary_dir;
  std::string word_vectors;  // Empty: none.
  std::string reflection;    // `auto`, `on`, `off`.
  int drain_seconds = 0;
  std::vector<std::string> http_listen;  // Addresses; empty for none.
  std::vector<std::string> http_allowed_origins;
  std::string metrics_listen;  // `IP:PORT`; empty for none.
  std::string log_level;
  std::string log_format;             // `auto`, `json`, `text`.
  std::string log_requests;           // `errors`, `all`, `none`.
  std::string audit_log;              // A path or `stderr`; empty for none.
  std::string otlp_endpoint;          // An URL; empty for none.
  std::vector<ModelSettings> models;  // From the file alone.
  TenantLimitTable tenants;           // Exceptions from the file alone.
  // From the file alone, and what MakeTemplates() makes of them.
  std::vector<TemplateSource> template_sources;
  SessionTemplates templates;

  // Whether callers need a credential.
  bool Authenticates() const { return !credentials.empty() || !jwt.jwks_file.empty(); }
  bool UsesTls() const { return !tls_cert.empty(); }
  // Whether requests can come from other machines without TLS, which allow_plaintext allowed.
  bool ListensInPlaintext() const;
};

// The most bytes of an item's value: `max_item_mib`, but so that a request has room for it.
std::int64_t ItemBytes(const Config& config);

// What no single value can be checked for: TLS, JSON Web Tokens, plaintext, spans, the size of
// items, templates of tenants. INVALID_ARGUMENT with one line that names the key.
absl::Status CheckConfig(const Config& config);

// Fills in `templates`. INVALID_ARGUMENT with one line, as CheckConfig() has it. Time zones are
// known by then, see UseZoneFiles().
absl::Status CheckTemplates(Config& config);

// Whether an address of Config::listen can be reached from this machine only.
bool IsLocalAddress(std::string_view address);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_CONFIG_H_
