#include "server/config.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/base/status_macros.h"
#include "server/access/jwt_verifier.h"
#include "server/access/session_templates.h"
#include "server/ops/span_exporter.h"
#include "server/settings/limits.h"
#include "server/settings/setting_value.h"

namespace memoryd {
namespace {

absl::Status CheckTls(const Config& config) {
  if (config.tls_cert.empty() != config.tls_key.empty()) {
    return InvalidSetting(config.tls_cert.empty() ? "tls_key: needs tls_cert beside it"
                                                  : "tls_cert: needs tls_key beside it");
  }
  if (!config.tls_client_ca.empty() && !config.UsesTls()) {
    return InvalidSetting("tls_client_ca: needs tls_cert and tls_key beside it");
  }
  return absl::OkStatus();
}

absl::Status CheckJwt(const Config& config) {
  const JwtSettings& jwt = config.jwt;
  if (jwt.jwks_file.empty()) {
    if (!jwt.issuer.empty()) return InvalidSetting("jwt_issuer: needs jwks_file beside it");
    if (!jwt.audience.empty()) return InvalidSetting("jwt_audience: needs jwks_file beside it");
    if (!jwt.subject_claim.empty()) {
      return InvalidSetting("jwt_subject_claim: needs jwks_file beside it");
    }
    return absl::OkStatus();
  }
  // Else a token that was made for another service would do here.
  if (jwt.issuer.empty()) return InvalidSetting("jwks_file: needs jwt_issuer beside it");
  if (jwt.audience.empty()) return InvalidSetting("jwks_file: needs jwt_audience beside it");
  return absl::OkStatus();
}

absl::Status CheckPlaintext(const Config& config) {
  const auto check = [&config](std::string_view setting,
                               const std::vector<std::string>& addresses) -> absl::Status {
    for (const std::string& address : addresses) {
      if (config.allow_plaintext || config.UsesTls() || IsLocalAddress(address)) continue;
      return InvalidSetting(
          fmt::format("{}: {} can be reached from other machines without TLS; set tls_cert and "
                      "tls_key, listen on loopback or a UNIX socket, or set allow_plaintext",
                      setting, address));
    }
    return absl::OkStatus();
  };
  MEMORYD_RETURN_IF_ERROR(check("listen", config.listen));
  return check("http_listen", config.http_listen);
}

absl::Status CheckSpans(const Config& config) {
  if (config.otlp_endpoint.empty() || CanExportSpans()) return absl::OkStatus();
  return InvalidSetting(
      "otlp_endpoint: this build has no OpenTelemetry; leave it off, or take a memoryd that was "
      "built beside opentelemetry-cpp, which Debian has from version 13 on");
}

absl::Status CheckItemBytes(const Config& config) {
  const std::int64_t most = config.max_request_mib - kRequestMibBesideItem;
  // A server whose max_request_mib was lowered before there were items goes on as it is.
  if (config.max_item_mib <= most || config.max_item_mib == kUsualItemMib) return absl::OkStatus();
  return InvalidSetting(
      fmt::format("max_item_mib: an item of {} MiB and the rest of its request do not fit into "
                  "max_request_mib, {}; set max_item_mib to {} or less, or max_request_mib to {}",
                  config.max_item_mib, config.max_request_mib, most,
                  config.max_item_mib + kRequestMibBesideItem));
}

}  // namespace

bool Config::ListensInPlaintext() const {
  return !UsesTls() && !(std::all_of(listen.begin(), listen.end(), &IsLocalAddress) &&
                         std::all_of(http_listen.begin(), http_listen.end(), &IsLocalAddress));
}

absl::Status CheckTemplates(Config& config) {
  MEMORYD_ASSIGN_OR_RETURN(config.templates, MakeTemplates(config.template_sources));
  return absl::OkStatus();
}

bool IsLocalAddress(std::string_view address) {
  if (address.starts_with("unix:") || address.starts_with("localhost:") ||
      address.starts_with("[::1]:")) {
    return true;
  }
  // 127.0.0.0/8, but not a name such as 127.example.org.
  const std::string host(address.substr(0, address.rfind(':')));
  in_addr parsed{};
  return inet_pton(AF_INET, host.c_str(), &parsed) == 1 && host.starts_with("127.");
}

std::int64_t ItemBytes(const Config& config) {
  return std::min(config.max_item_mib, config.max_request_mib - kRequestMibBesideItem) << 20;
}

absl::Status CheckConfig(const Config& config) {
  MEMORYD_RETURN_IF_ERROR(CheckTls(config));
  MEMORYD_RETURN_IF_ERROR(CheckJwt(config));
  MEMORYD_RETURN_IF_ERROR(CheckPlaintext(config));
  MEMORYD_RETURN_IF_ERROR(CheckSpans(config));
  MEMORYD_RETURN_IF_ERROR(CheckItemBytes(config));
  return CheckTenantTemplates(config.template_sources, config.tenants);
}

}  // namespace memoryd
