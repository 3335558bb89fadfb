#include "server/exposure.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_join.h"
#include "server/config.h"

namespace memoryd {
namespace {

// Separated by commas; empty where none is reached.
std::string ReachedOf(const std::vector<std::string>& addresses) {
  std::vector<std::string> reached;
  for (const std::string& address : addresses) {
    if (!IsLocalAddress(address)) reached.push_back(address);
  }
  return absl::StrJoin(reached, ", ");
}

}  // namespace

std::vector<std::string> UnguardedListeners(const Config& config) {
  std::vector<std::string> lines;
  const auto look_at_calls = [&](std::string_view setting, const auto& addresses,
                                 std::string_view without_credentials) {
    const std::string reached = ReachedOf(addresses);
    if (reached.empty()) return;
    if (!config.Authenticates() && config.tls_client_ca.empty()) {
      lines.push_back(
          fmt::format("{}: {}: no credentials: {}; set credentials, jwks_file or tls_client_ca",
                      setting, reached, without_credentials));
    }
    if (!config.UsesTls()) {
      lines.push_back(fmt::format(
          "{}: {}: allow_plaintext: other machines on the way can read all calls{}", setting,
          reached, config.Authenticates() ? ", and the tokens with them" : ""));
    }
  };
  look_at_calls("listen", config.listen,
                "whoever reaches it may read and change all of the tenant default");
  look_at_calls("http_listen", config.http_listen,
                "only requests to localhost by name are answered");
  if (const std::string reached = ReachedOf(config.health_listen); !reached.empty()) {
    lines.push_back(
        fmt::format("health_listen: {}: plaintext without credentials: let a firewall or a "
                    "NetworkPolicy admit the prober alone",
                    reached));
  }
  if (!config.metrics_listen.empty() && !IsLocalAddress(config.metrics_listen)) {
    lines.push_back(
        fmt::format("metrics_listen: {}: plaintext without credentials: let a firewall or a "
                    "NetworkPolicy admit Prometheus and probers alone",
                    config.metrics_listen));
  }
  return lines;
}

}  // namespace memoryd
