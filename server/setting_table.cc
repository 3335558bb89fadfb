#include "server/setting_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "core/model/session_config.h"
#include "core/storage/stores.h"
#include "server/access/tenant_limits.h"
#include "server/binary_path.h"
#include "server/config.h"
#include "server/settings/addresses.h"
#include "server/settings/limits.h"
#include "server/settings/setting_value.h"

namespace memoryd {
namespace {

std::filesystem::path StateDirectory() {
  // systemd's, then the XDG base directory specification's.
  if (const char* directory = std::getenv("STATE_DIRECTORY")) return directory;
  if (const char* directory = std::getenv("XDG_STATE_HOME")) {
    return std::filesystem::path(directory) / "memoryd";
  }
  if (const char* home = std::getenv("HOME")) {
    return std::filesystem::path(home) / ".local/state/memoryd";
  }
  return "/var/lib/memoryd";
}

std::string DefaultVocabularyDirectory() {
  const auto binary = BinaryPath();
  if (binary.empty()) return "/usr/share/memoryd";
  return (binary.parent_path().parent_path() / "share/memoryd").string();
}

std::string Nothing() { return {}; }

std::string Keep(const std::string& value, std::string& out) {
  out = value;
  return {};
}

std::string KeepName(const std::string& value, std::string& out) {
  out = value;
  return value.empty() ? "must not be empty" : "";
}

std::string ParseMode(const std::string& value, unsigned& out) {
  constexpr int kOctal = 8;
  constexpr unsigned kMost = 0777;
  const char* const end = value.data() + value.size();
  const auto [last, error] = std::from_chars(value.data(), end, out, kOctal);
  if (error != std::errc() || last != end || out > kMost) {
    return "must be an octal mode from 0 to 0777";
  }
  return {};
}

constexpr std::array kSettings = {
    Setting{"listen", "Addresses to listen on: HOST:PORT or unix:PATH, separated by commas.",
            [] { return std::string("127.0.0.1:50051"); },
            [](Config& c, const std::string& v) { return ParseListen(v, c.listen); },
            "Port 0: a free port, which is printed."},
    Setting{"allow_plaintext", "Serves without TLS on addresses that other machines can reach.",
            [] { return std::string("false"); },
            [](Config& c, const std::string& v) { return ParseBool(v, c.allow_plaintext); },
            "Logs a warning at startup."},
    Setting{"tls_cert", "PEM file with the server's certificate and its intermediates.", &Nothing,
            [](Config& c, const std::string& v) { return Keep(v, c.tls_cert); },
            "If set, all TCP addresses use TLS, 1.2 or newer."},
    Setting{"tls_key", "PEM file with the key of tls_cert.", &Nothing,
            [](Config& c, const std::string& v) { return Keep(v, c.tls_key); },
            "Refused if users other than its owner and group can read it."},
    Setting{"tls_client_ca", "PEM file: the CAs that must have signed clients' certificates.",
            &Nothing, [](Config& c, const std::string& v) { return Keep(v, c.tls_client_ca); },
            "[Which to choose](ACCESS.md#which-to-choose)."},
    Setting{"credentials",
            "YAML file with credentials and their rights. Empty: no authentication; every caller "
            "has all rights.",
            &Nothing, [](Config& c, const std::string& v) { return Keep(v, c.credentials); },
            "[Who may do what](ACCESS.md#who-may-do-what)."},
    Setting{"jwks_file", "JSON file: public keys that check JSON Web Tokens. Empty: none accepted.",
            &Nothing, [](Config& c, const std::string& v) { return Keep(v, c.jwt.jwks_file); },
            "[JSON Web Tokens](ACCESS.md#json-web-tokens)."},
    Setting{"jwt_issuer", "The required claim `iss` of JSON Web Tokens.", &Nothing,
            [](Config& c, const std::string& v) { return Keep(v, c.jwt.issuer); },
            "Required with `jwks_file`."},
    Setting{"jwt_audience", "The value that the claim `aud` of JSON Web Tokens must contain.",
            &Nothing, [](Config& c, const std::string& v) { return Keep(v, c.jwt.audience); },
            "Required with `jwks_file`."},
    Setting{"jwt_tenant_claim", "The claim of JSON Web Tokens that names the tenant.",
            [] { return std::string("tenant"); },
            [](Config& c, const std::string& v) { return KeepName(v, c.jwt.tenant_claim); }},
    Setting{"jwt_rights_claim",
            "The claim of JSON Web Tokens with the rights: memoryd:read, memoryd:write and so on.",
            [] { return std::string("scope"); },
            [](Config& c, const std::string& v) { return KeepName(v, c.jwt.rights_claim); },
            "[JSON Web Tokens](ACCESS.md#json-web-tokens)."},
    Setting{"jwt_subject_claim",
            "The claim of JSON Web Tokens that names the caller's subject. Empty: none.", &Nothing,
            [](Config& c, const std::string& v) { return Keep(v, c.jwt.subject_claim); }},
    Setting{"health_listen",
            "Addresses that serve only health checks, in plaintext, to any client.", &Nothing,
            [](Config& c, const std::string& v) {
              c.health_listen.clear();
              return v.empty() ? std::string() : ParseListen(v, c.health_listen);
            },
            "Use `0.0.0.0:50052` for a kubelet."},
    Setting{"http_listen",
            "Addresses of the Connect protocol over HTTP/1.1, for curl, browsers and hosts without "
            "gRPC; empty or off: none. TLS, credentials and limits are those of listen.",
            &Nothing,
            [](Config& c, const std::string& v) {
              c.http_listen.clear();
              return v.empty() || v == "off" ? std::string() : ParseListen(v, c.http_listen);
            },
            "[HTTP](HTTP.md)."},
    Setting{"http_allowed_origins",
            "Sites whose pages may call http_listen from a browser. Empty: no other site's.",
            &Nothing,
            [](Config& c, const std::string& v) { return ParseOrigins(v, c.http_allowed_origins); },
            "[HTTP](HTTP.md#browsers)."},
    Setting{"store", "sqlite:PATH, sqlite::memory:, postgresql://…, or a URL of SQLAlchemy.",
            [] { return "sqlite:" + (StateDirectory() / "memoryd.db").string(); },
            [](Config& c, const std::string& v) -> std::string {
              c.store = v;
              return std::string(ParseStoreUrl(v).status().message());
            },
            "[Spellings](CONFIGURATION.md#the-stores-url), [PostgreSQL](STORES.md#postgresql), "
            "[SQLite](STORES.md#sqlite).",
            "`sqlite:memoryd.db` in the state directory"},
    Setting{"accept_lost_commits",
            "SQLite: starts although a damaged log has lost these commits. The error of the failed "
            "start names them. Empty: refuses to start.",
            &Nothing,
            [](Config& c, const std::string& v) { return Keep(v, c.accept_lost_commits); },
            "[A damaged log](STORES.md#sqlite)."},
    Setting{"coherence",
            "Whether other servers may use the store: shared (yes), exclusive (no), or auto "
            "(shared on PostgreSQL, exclusive on SQLite).",
            [] { return std::string("auto"); },
            [](Config& c, const std::string& v) -> std::string {
              std::string choice;
              if (std::string error = ParseChoice(v, {"auto", "shared", "exclusive"}, choice);
                  !error.empty()) {
                return error;
              }
              const StoreKind* kind = FindStoreKind(c.store);
              c.coherence = choice == "shared"      ? Coherence::kShared
                            : choice == "exclusive" ? Coherence::kExclusive
                            : kind != nullptr       ? kind->default_coherence
                                                    : Coherence::kExclusive;
              return {};
            }},
    Setting{"committers", "Threads that commit, and as many connections to the store.",
            [] { return std::string("1"); },
            [](Config& c, const std::string& v) { return ParseInt(v, 1, 16, c.committers); },
            "Two make smaller batches, and so more work of the store. On PostgreSQL large writes have "
            "one more. On SQLite more than one only get in each other's way."},
    Setting{"readers", "Threads, and connections to the store, that load sessions and read pages.",
            [] { return std::string("4"); },
            [](Config& c, const std::string& v) { return ParseInt(v, 1, 64, c.readers); }},
    Setting{"searchers", "Threads for Query and UpdateContext.", [] { return std::string("2"); },
            [](Config& c, const std::string& v) { return ParseInt(v, 1, 64, c.searchers); }},
    Setting{
        "store_timeout_ms", "Milliseconds for a store call.", [] { return std::string("5000"); },
        [](Config& c, const std::string& v) { return ParseInt(v, 100, 60000, c.store_timeout_ms); },
        "COMMIT included."},
    Setting{"transaction_pooling", "Whether a transaction pooler is before PostgreSQL.",
            [] { return std::string("false"); },
            [](Config& c, const std::string& v) -> std::string {
              std::string choice;
              if (std::string error = ParseChoice(v, {"false", "true", "unnamed"}, choice);
                  !error.empty()) {
                return error;
              }
              c.transaction_pooling = choice == "true"      ? Pooling::kNamed
                                      : choice == "unnamed" ? Pooling::kUnnamed
                                                            : Pooling::kNone;
              return {};
            },
            "PgBouncer is such a pooler. With true statements are prepared until the pooler loses "
            "one. With unnamed none is prepared. [Behind a pooler](STORES.md#behind-a-pooler)."},
    Setting{"max_pending_calls", "The most calls that wait for the store. More are refused.",
            [] { return std::string("4096"); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, std::int64_t{1}, std::int64_t{1} << 20, c.max_pending_calls);
            },
            "[Overload](CAPACITY.md#overload)."},
    Setting{"tenant_calls_per_second",
            "The most calls of a tenant per second, on each server. 0: no limit.",
            [] { return std::string("0"); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, 0, kMaxTenantLimit, c.tenants.usual.calls_per_second);
            },
            "As many calls may come at once. [Tenants](TENANTS.md#tenants-beside-one-another)."},
    Setting{"tenant_calls_in_flight",
            "The most calls of a tenant in flight at once, on each server. 0: no limit.",
            [] { return std::string("0"); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, 0, kMaxTenantLimit, c.tenants.usual.calls_in_flight);
            }},
    Setting{"tenant_watches",
            "The most sessions that a tenant watches at once, on each server. 0: no limit.",
            [] { return fmt::format("{}", kUsualWatches); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, 0, kMaxTenantLimit, c.tenants.usual.watches);
            }},
    Setting{"tenant_sessions", "The most sessions of a tenant. 0: no limit.",
            [] { return std::string("0"); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, std::int64_t{0}, kMaxTenantQuota, c.tenants.usual.sessions);
            },
            "[What a tenant may store](TENANTS.md#what-a-tenant-may-store)."},
    Setting{"tenant_messages", "The most messages and contents of a tenant. 0: no limit.",
            [] { return std::string("0"); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, std::int64_t{0}, kMaxTenantQuota, c.tenants.usual.messages);
            }},
    Setting{"tenant_mib", "The most MiB of messages and contents of a tenant. 0: no limit.",
            [] { return std::string("0"); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, std::int64_t{0}, kMaxTenantQuota, c.tenants.usual.mib);
            }},
    Setting{"tenant_session_ttl_s",
            "Seconds without a write after which a session is deleted (0: never). For sessions "
            "created without `retention.session_ttl`.",
            [] { return std::string("0"); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, std::int64_t{0}, kMaxTtlSeconds, c.tenants.usual.session_ttl_s);
            },
            "[How long is a session kept?](RETENTION.md#how-long-is-a-session-kept)"},
    Setting{"tenant_refresh_on_read",
            "Whether reads postpone that, in sessions created without `retention.refresh_on_read`.",
            [] { return std::string("false"); },
            [](Config& c, const std::string& v) {
              return ParseBool(v, c.tenants.usual.refresh_on_read);
            }},
    Setting{"tenant_keep_messages",
            "The number of newest messages that a session keeps (0: all). For sessions created "
            "without `retention.keep_messages`.",
            [] { return std::string("0"); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, std::int64_t{0}, kMaxTenantQuota, c.tenants.usual.keep_messages);
            }},
    Setting{"tenant_keep_bytes",
            "The bytes of newest messages that a session keeps (0: all). For sessions created "
            "without `retention.keep_bytes`.",
            [] { return std::string("0"); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, std::int64_t{0}, kMaxTenantQuota, c.tenants.usual.keep_bytes);
            }},
    Setting{"tenant_message_ttl_s",
            "Seconds after which a message is removed (0: never). For sessions created without "
            "`retention.message_ttl`.",
            [] { return std::string("0"); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, std::int64_t{0}, kMaxTtlSeconds, c.tenants.usual.message_ttl_s);
            }},
    Setting{"tenant_model_tokens_per_day",
            "The most tokens, sent and received, that models may use for a tenant in a UTC day, on "
            "each server. 0: no limit.",
            [] { return std::string("0"); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, std::int64_t{0}, kMaxTenantQuota,
                              c.tenants.usual.model_tokens_per_day);
            }},
    Setting{"tenant_model_calls_per_day",
            "The most model calls for a tenant in a UTC day, on each server. 0: no limit.",
            [] { return std::string("0"); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, std::int64_t{0}, kMaxTenantQuota,
                              c.tenants.usual.model_calls_per_day);
            }},
    Setting{
        "tenant_default_template",
        "The template, one of `templates`, for sessions created with neither a template nor a "
        "configuration. Empty: none.",
        &Nothing,
        [](Config& c, const std::string& v) { return Keep(v, c.tenants.usual.default_template); },
        "[Templates](TENANTS.md#templates-of-sessions)."},
    Setting{"cache_mib", "Memory for cached sessions, in MiB.", [] { return std::string("256"); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, std::int64_t{1}, std::int64_t{1} << 20, c.cache_mib);
            }},
    Setting{"active_mib",
            "The most active messages of a session, in MiB, counting 256 bytes more for each. At "
            "most a tenth of the memory budget.",
            [] { return std::string("48"); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, std::int64_t{1}, std::int64_t{1} << 20, c.active_mib);
            },
            "[Active bytes](CAPACITY.md#active-bytes)."},
    Setting{"index_mib", "Memory for search indexes, in MiB.", [] { return std::string("128"); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, std::int64_t{1}, std::int64_t{1} << 20, c.index_mib);
            },
            "About 600 bytes for each message of a searched session, besides its text. The index "
            "searched least recently is evicted first, and rebuilt when needed."},
    Setting{"vector_mib", "Memory for the vectors of blocks, in MiB.",
            [] { return std::string("256"); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, std::int64_t{1}, std::int64_t{1} << 20, c.vector_mib);
            },
            "The vectors searched least recently are evicted, and read again when needed."},
    Setting{"memory_limit_mib",
            "Memory of the process, in MiB. It bounds the memory that callers can cause: above 80 "
            "% of it caches shrink, then calls that need memory are refused. 0: the limit of the "
            "control group, version 1 or 2, if there is one.",
            [] { return std::string("0"); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, std::int64_t{0}, std::int64_t{1} << 30, c.memory_limit_mib);
            },
            "[Memory](CAPACITY.md#memory)."},
    Setting{"max_request_mib",
            "The largest request, media included, in MiB. At most an eighth of the memory budget, "
            "but at least 4. More than 36 with too small a budget: the server does not start.",
            [] { return std::to_string(kUsualRequestMib); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, kLeastRequestMib, kMostRequestMib, c.max_request_mib);
            },
            "[Large requests](CAPACITY.md#large-requests)."},
    Setting{"max_item_mib",
            "The largest value of an item, in MiB. At least 1 less than max_request_mib: the "
            "default is "
            "lowered to that, and with another value the server does not start.",
            [] { return std::to_string(kUsualItemMib); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, std::int64_t{1}, kMostRequestMib - kRequestMibBesideItem,
                              c.max_item_mib);
            },
            "GetServerInfo says it (`limits.item_bytes`)."},
    Setting{"rpc_threads",
            "Threads that serve connections, and as many that stand by. 0: half the number of cores, at most 4.",
            [] { return std::string("0"); },
            [](Config& c, const std::string& v) { return ParseInt(v, 0, 64, c.rpc_threads); },
            "They parse, check and send. One waits for the store only while another stands in for it."},
    Setting{"max_connections", "The most open connections. Further connections are closed at once.",
            [] { return std::string("4096"); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, 1, 1'000'000, c.max_connections);
            },
            "[Memory](CAPACITY.md#memory)."},
    Setting{"max_connections_per_address",
            "The most open connections of one IP address, or of one IPv6 network of 64 bits.",
            [] { return std::string("2048"); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, 1, 1'000'000, c.max_connections_per_address);
            },
            "UNIX sockets have no such limit."},
    Setting{"unix_socket_mode", "Permissions of UNIX sockets, in octal.",
            [] { return std::string("0600"); },
            [](Config& c, const std::string& v) { return ParseMode(v, c.unix_socket_mode); },
            "`0660` lets the group of the server's user connect."},
    Setting{"max_connection_age_s",
            "Seconds, a tenth more or less, after which clients must reconnect. 0: never.",
            [] { return std::string("1800"); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, 0, 1'000'000, c.max_connection_age_s);
            },
            "Clients then spread over all replicas."},
    Setting{"max_connection_age_grace_s",
            "Seconds that calls on such a connection may still take before it is closed.",
            [] { return std::string("30"); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, 1, 1'000'000, c.max_connection_age_grace_s);
            },
            "Then endless streams end too. A worker attaches again; a Get in that moment may name "
            "its blocks as missing."},
    Setting{
        "block_timeout_ms", "Milliseconds that a Get waits for models and workers.",
        [] { return std::string("2000"); },
        [](Config& c, const std::string& v) { return ParseInt(v, 1, 30000, c.block_timeout_ms); },
        "For a Query and its embedder too. At most half of the call's remaining time."},
    Setting{"sweep_interval_ms",
            "Milliseconds between two sweeps, which delete expired sessions and messages and purge "
            "deleted rows.",
            [] { return std::string("10000"); },
            [](Config& c, const std::string& v) {
              return ParseInt(v, 100, 3600000, c.sweep_interval_ms);
            },
            "[How long is a session kept?](RETENTION.md#how-long-is-a-session-kept)"},
    Setting{
        "max_running_jobs", "The most jobs that run at once.", [] { return std::string("64"); },
        [](Config& c, const std::string& v) { return ParseInt(v, 1, 4096, c.max_running_jobs); },
        "One tenant's jobs take at most half."},
    Setting{"job_attempts", "Attempts before a job is given up.", [] { return std::string("12"); },
            [](Config& c, const std::string& v) { return ParseInt(v, 1, 1000, c.job_attempts); },
            "[Blocks and their jobs](MODELS.md#blocks-and-their-jobs)."},
    Setting{"job_retry_ms", "Milliseconds before a job's second attempt; doubles with each.",
            [] { return std::string("1000"); },
            [](Config& c, const std::string& v) { return ParseInt(v, 1, 600000, c.job_retry_ms); },
            "At most ten minutes. The actual wait is drawn at random from the upper half."},
    Setting{
        "job_lease_ms",
        "Milliseconds after which another server takes over the jobs of a server that died.",
        [] { return std::string("30000"); },
        [](Config& c, const std::string& v) { return ParseInt(v, 100, 600000, c.job_lease_ms); },
        "Leases are renewed once a second at most: below about 3000 a job may run twice, but "
        "counts once."},
    Setting{
        "job_timeout_ms", "Milliseconds for one attempt of a job.",
        [] { return std::string("120000"); },
        [](Config& c, const std::string& v) { return ParseInt(v, 100, 3600000, c.job_timeout_ms); },
        "All its model calls together."},
    Setting{"vocabulary_dir",
            "Directory with the tokenizers' vocabularies and, in `zoneinfo`, the time zones.",
            &DefaultVocabularyDirectory,
            [](Config& c, const std::string& v) { return Keep(v, c.vocabulary_dir); }, "",
            "`../share/memoryd` beside the binary"},
    Setting{"word_vectors",
            "File of word vectors, by which Query finds similar words, .safetensors, or off.",
            &DefaultWordVectors,
            [](Config& c, const std::string& v) {
              c.word_vectors = v == "off" ? "" : v;
              return std::string(v.empty() ? "must be a file or off" : "");
            },
            "[Word vectors](MODELS.md#word-vectors).",
            "`../share/memoryd/l2_supercat_256.safetensors` beside the binary"},
    Setting{"reflection",
            "gRPC reflection: on, off, or auto (on with credentials, else on local addresses "
            "only). With credentials it needs the right admin.",
            [] { return std::string("auto"); },
            [](Config& c, const std::string& v) {
              return ParseChoice(v, {"auto", "on", "off"}, c.reflection);
            }},
    Setting{"drain_seconds", "Seconds that calls may still take after SIGTERM.",
            [] { return std::string("10"); },
            [](Config& c, const std::string& v) { return ParseInt(v, 0, 600, c.drain_seconds); },
            "[Stopping](DEPLOY.md#stopping)."},
    Setting{"metrics_listen", "Address of the Prometheus metrics, IP:PORT, or off.",
            [] { return std::string("off"); },
            [](Config& c, const std::string& v) { return ParseMetricsListen(v, c.metrics_listen); },
            "Port 0: a free port, which is printed. [Metrics](MONITORING.md#metrics)."},
    Setting{"log_level", "debug, info, warning or error.", [] { return std::string("info"); },
            [](Config& c, const std::string& v) {
              return ParseChoice(v, {"debug", "info", "warning", "error"}, c.log_level);
            },
            "The least level that is logged. The log goes to standard error."},
    Setting{"log_format", "Format of the log: json, text, or auto (text on a terminal, else json).",
            [] { return std::string("auto"); },
            [](Config& c, const std::string& v) {
              return ParseChoice(v, {"auto", "json", "text"}, c.log_format);
            }},
    Setting{"log_requests", "Calls that are logged: errors (the server's faults), all, none.",
            [] { return std::string("errors"); },
            [](Config& c, const std::string& v) {
              return ParseChoice(v, {"errors", "all", "none"}, c.log_requests);
            },
            "[Logs](MONITORING.md#logs)."},
    Setting{"audit_log", "Log of calls that may change memory: a file, stderr, or off.",
            [] { return std::string("off"); },
            [](Config& c, const std::string& v) {
              c.audit_log = v == "off" ? "" : v;
              return std::string(v.empty() ? "must be a file, stderr or off" : "");
            },
            "[Audit log](MONITORING.md#audit-log)."},
    Setting{"otlp_endpoint",
            "URL to which spans of sampled calls are sent, by OTLP over HTTP, or off.",
            [] { return std::string("off"); },
            [](Config& c, const std::string& v) { return ParseEndpoint(v, c.otlp_endpoint); },
            "Needs a build with OpenTelemetry. [Traces](MONITORING.md#traces)."},
};

}  // namespace

std::span<const Setting> SettingTable() { return kSettings; }

std::string DefaultWordVectors() {
  return DefaultVocabularyDirectory() + "/l2_supercat_256.safetensors";
}

std::string FlagOf(const Setting& setting) {
  std::string flag = fmt::format("--{}", setting.name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string VariableOf(const Setting& setting) {
  std::string variable = fmt::format("MEMORYD_{}", setting.name);
  for (char& c : variable) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return variable;
}

}  // namespace memoryd
