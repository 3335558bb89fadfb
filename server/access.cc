#include "server/access.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "server/config.h"
#include "server/exposure.h"

namespace memoryd {
namespace {

constexpr std::chrono::seconds kLookInterval(1);

}  // namespace

Access::Access(const Config& config) : watch_(kLookInterval) {
  if (config.UsesTls()) tls_.emplace(config.tls_cert, config.tls_key, config.tls_client_ca);
  if (!config.jwt.jwks_file.empty()) jwt_.emplace(config.jwt);
  if (config.Authenticates()) {
    authenticator_.emplace(config.credentials, jwt_.has_value() ? &*jwt_ : nullptr);
  }
  const bool automatic = config.reflection == "auto";
  // Never without a credential beside those that all else asks for.
  guards_reflection_ = config.reflection != "off" && authenticator_.has_value();
  wants_reflection_ =
      config.reflection == "on" || guards_reflection_ ||
      (automatic && std::all_of(config.listen.begin(), config.listen.end(), &IsLocalAddress));
}

absl::StatusOr<std::unique_ptr<Access>> Access::Open(const Config& config) {
  std::unique_ptr<Access> access(new Access(config));
  if (access->tls_.has_value()) {
    std::vector<std::string> paths = {config.tls_cert, config.tls_key};
    if (!config.tls_client_ca.empty()) paths.push_back(config.tls_client_ca);
    MEMORYD_RETURN_IF_ERROR(
        access->watch_.Add(std::move(paths), [files = &*access->tls_] { return files->Reload(); }));
  }
  if (access->jwt_.has_value()) {
    MEMORYD_RETURN_IF_ERROR(access->watch_.Add({config.jwt.jwks_file},
                                               [jwt = &*access->jwt_] { return jwt->Reload(); }));
  }
  if (!config.credentials.empty()) {
    MEMORYD_RETURN_IF_ERROR(access->watch_.Add(
        {config.credentials},
        [authenticator = &*access->authenticator_] { return authenticator->Reload(); }));
  }
  for (const std::string& line : UnguardedListeners(config)) spdlog::warn("{}", line);
  access->watch_.Start();
  return access;
}

}  // namespace memoryd
