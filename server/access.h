// Who may reach the server and do what in it, as the settings say: TLS, credentials, reflection.
#ifndef MEMORYD_SERVER_ACCESS_H_
#define MEMORYD_SERVER_ACCESS_H_

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "server/access/authenticator.h"
#include "server/access/jwt_verifier.h"
#include "server/config.h"
#include "server/ops/file_watch.h"
#include "server/settings/tls_files.h"

namespace memoryd {

// Outlives the servers that use it.
class Access {
 public:
  // Reads the files that the settings name and keeps reading them when they change.
  // INVALID_ARGUMENT with one line that names the setting. Logs a warning for each listener that
  // others reach unguarded.
  static absl::StatusOr<std::unique_ptr<Access>> Open(const Config& config);

  // Null when no address has TLS.
  const TlsFiles* tls() const { return tls_.has_value() ? &*tls_ : nullptr; }

  // Null when no JSON Web Token is a credential.
  const JwtVerifier* jwt() const { return jwt_.has_value() ? &*jwt_ : nullptr; }

  // Null when authentication is off.
  const Authenticator* authenticator() const {
    return authenticator_.has_value() ? &*authenticator_ : nullptr;
  }

  // Whether to serve reflection at all; where authentication is on, it is for the right admin.
  bool wants_reflection() const { return wants_reflection_; }
  bool guards_reflection() const { return guards_reflection_; }

 private:
  explicit Access(const Config& config);

  bool wants_reflection_ = false;
  bool guards_reflection_ = false;
  std::optional<TlsFiles> tls_;
  std::optional<JwtVerifier> jwt_;
  std::optional<Authenticator> authenticator_;
  FileWatch watch_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_ACCESS_H_
