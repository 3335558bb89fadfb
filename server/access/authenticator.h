// Who calls, and what it may do.
#ifndef MEMORYD_SERVER_ACCESS_AUTHENTICATOR_H_
#define MEMORYD_SERVER_ACCESS_AUTHENTICATOR_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "server/access/credential_table.h"
#include "server/access/jwt_verifier.h"
#include "server/wire/method.h"

namespace memoryd {

// What a call brings to prove who makes it. The views are of the call's own memory.
struct Proof {
  // How many `authorization` headers there are, and one of them.
  int authorizations = 0;
  std::string_view authorization;
  // Of the client certificate, when one was verified: the URIs, which hold a colon, and the DNS
  // names, or else the common name, which don't.
  std::vector<std::string_view> certificate_names;
};

// Who makes a call, by its credentials.
struct Caller {
  // Whose memory the call is about.
  std::string tenant;
  // See Grant::principal; the token's where there is a certificate beside it. Empty where
  // authentication is off.
  std::string principal;
  Rights rights;
  // Of the messages that it may write.
  Roles roles;
  // What it writes need not be believed.
  bool untrusted = false;
  // Whether a credential with the right `worker` is neither untrusted nor limited to some roles.
  bool trusted_worker = true;
  // Whose sessions alone it reaches; empty: those of all.
  std::string subject = {};

  // Whether more than its rights limits what it may write.
  bool IsLimited() const { return untrusted || !roles.any(); }
};

// PERMISSION_DENIED `SUBJECT_NOT_GRANTED` for a caller of one subject, by a method that reaches
// more.
absl::Status CheckReach(const Caller& caller, Reach reach);

// PERMISSION_DENIED `RIGHT_MISSING`; `WORKER_NOT_GRANTED` for a limited caller that would be a
// worker.
absl::Status CheckRight(const Caller& caller, Right right);

// Any thread may ask while another reloads; the lock between them is held for copying a pointer.
class Authenticator {
 public:
  using Clock = std::function<absl::Time()>;

  // `path` is that of the credentials file, empty for none; `jwt` knows tokens that are not in it
  // and may be null.
  Authenticator(std::string path, JwtVerifier* jwt, Clock now = &absl::Now);

  // Reads the credentials file again. An error, one line that names the setting, changes nothing.
  absl::Status Reload() MEMORYD_EXCLUDES(mutex_);

  // UNAUTHENTICATED, always with the same text; PERMISSION_DENIED
  // `CREDENTIALS_DISAGREE` when the credentials name several tenants.
  absl::StatusOr<Caller> Authenticate(const Proof& proof) const MEMORYD_EXCLUDES(mutex_);

  // Whether the credentials file, as it is now, has the tenant.
  bool HasTenant(std::string_view tenant) const MEMORYD_EXCLUDES(mutex_);

 private:
  const std::string path_;
  JwtVerifier* const jwt_;
  const Clock now_;
  mutable Mutex mutex_;
  // Shared with the calls that look into it while it is replaced.
  std::shared_ptr<const CredentialTable> table_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_ACCESS_AUTHENTICATOR_H_
