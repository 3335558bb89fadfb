// JSON Web Tokens as credentials.
#ifndef MEMORYD_SERVER_ACCESS_JWT_VERIFIER_H_
#define MEMORYD_SERVER_ACCESS_JWT_VERIFIER_H_

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/histogram.h"
#include "core/base/mutex.h"
#include "server/access/credential_table.h"
#include "server/access/jwt_failure.h"
#include "server/access/jwt_keys.h"

namespace memoryd {

struct JwtSettings {
  std::string jwks_file;
  std::string issuer;        // `iss` must be this,
  std::string audience;      // and `aud` be this or hold it.
  std::string tenant_claim;  // A string: the tenant.
  // Words, in a list or between blanks: `memoryd:read` and so on, `memoryd:role:user` and so on.
  std::string rights_claim;
  // A string: the subject that the caller is. Empty: a token opens what is of all subjects.
  std::string subject_claim;
};

// Any thread may ask while another reloads. Checking a signature takes some 20 µs (RSA of 2,048
// bits) or 80 µs (P-256), so a token is checked once and remembered while it is valid.
class JwtVerifier {
 public:
  using Clock = std::function<absl::Time()>;

  // By how much other clocks may be wrong.
  static constexpr absl::Duration kLeeway = absl::Seconds(60);
  // Tokens remembered; one more and all are forgotten.
  static constexpr std::size_t kMaxRemembered = 8192;

  explicit JwtVerifier(JwtSettings settings, Clock now = &absl::Now);

  // Reads the file again and forgets what the keys of before have signed. An error, one line that
  // names the setting, changes nothing.
  absl::Status Reload() MEMORYD_EXCLUDES(mutex_);

  // What the token grants; nullopt for one that is not taken, which is counted.
  std::optional<Grant> Verify(std::string_view token) MEMORYD_EXCLUDES(mutex_);

  // Tokens not taken for that reason.
  std::uint64_t refused(JwtFailure failure) const {
    return refused_[static_cast<std::size_t>(failure)];
  }

 private:
  // Its grant ends when the token does, leeway included.
  JwtResult<Grant> Check(const JwtKeys& keys, std::string_view token) const;

  const JwtSettings settings_;
  const Clock now_;
  std::array<Counter, kJwtFailures.size()> refused_{};
  Mutex mutex_;
  // Shared with the calls that look into them while they are replaced.
  std::shared_ptr<const JwtKeys> keys_ MEMORYD_GUARDED_BY(mutex_);
  // By the SHA-256 of the token. Only those that `keys_` have signed.
  absl::flat_hash_map<Sha256Digest, Grant> remembered_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_ACCESS_JWT_VERIFIER_H_
