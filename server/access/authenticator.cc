#include "server/access/authenticator.h"

#include <fmt/format.h>

#include <cctype>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/base/secret_file.h"
#include "core/base/status_macros.h"
#include "server/access/credential_table.h"
#include "server/access/jwt_verifier.h"
#include "server/settings/limits.h"
#include "server/wire/method.h"

namespace memoryd {
namespace {

absl::Status Unauthenticated() {
  return Error(absl::StatusCode::kUnauthenticated, "UNAUTHENTICATED",
               "no valid credential; send one header `authorization: Bearer TOKEN` with a token of "
               "this server, or connect with a client certificate it knows");
}

// The token of a header's value.
absl::StatusOr<std::string_view> TokenOf(std::string_view authorization) {
  if (authorization.size() < kTokenScheme.size()) return Unauthenticated();
  for (std::size_t i = 0; i < kTokenScheme.size(); ++i) {
    const auto c = static_cast<unsigned char>(authorization[i]);
    if (std::tolower(c) != kTokenScheme[i]) return Unauthenticated();
  }
  authorization.remove_prefix(kTokenScheme.size());
  // Before the blanks are cut: who sends many of them sends no token. The size is the caller's own
  // doing, so it tells nobody anything about the credentials.
  if (authorization.size() > kMaxTokenBytes) {
    return Error(absl::StatusCode::kUnauthenticated, "TOKEN_TOO_LARGE",
                 fmt::format("authorization: the token has more than {} bytes, the most that are "
                             "taken; have fewer claims in it, such as groups",
                             kMaxTokenBytes));
  }
  while (authorization.starts_with(' ')) authorization.remove_prefix(1);
  if (authorization.empty()) return Unauthenticated();
  return authorization;
}

// What the grants of all credentials of a call come to. They outlive it.
class GrantSum {
 public:
  void Take(const Grant& grant) {
    if (first_ == nullptr) first_ = &grant;
    disagree_ = disagree_ || grant.tenant != first_->tenant;
    // One without a subject adds rights, and takes the other's bound away from none of them.
    if (subject_.empty()) subject_ = grant.subject;
    disagree_ = disagree_ || (!grant.subject.empty() && grant.subject != subject_);
    rights_.Add(grant.rights);
    trusted_worker_ = trusted_worker_ ||
                      (grant.rights.Has(Right::kWorker) && !grant.untrusted && grant.roles.any());
    if (grant.rights.Has(Right::kWrite)) TakeWriter(grant);
  }

  absl::StatusOr<Caller> ToCaller() && {
    if (first_ == nullptr) return Unauthenticated();
    if (disagree_) {
      return Error(
          absl::StatusCode::kPermissionDenied, "CREDENTIALS_DISAGREE",
          "the token and the names of the client certificate belong to different tenants, or "
          "subjects; "
          "present those of one");
    }
    return Caller{first_->tenant,  first_->principal,  rights_, roles_.value_or(Roles()), !trusted_,
                  trusted_worker_, std::move(subject_)};
  }

 private:
  void TakeWriter(const Grant& grant) {
    trusted_ = trusted_ || !grant.untrusted;
    if (roles_.has_value()) {
      roles_->Add(grant.roles);
    } else {
      roles_ = grant.roles;
    }
  }

  const Grant* first_ = nullptr;
  Rights rights_;
  std::optional<Roles> roles_;
  bool trusted_ = false;
  bool trusted_worker_ = false;
  bool disagree_ = false;
  std::string subject_;
};

}  // namespace

absl::Status CheckRight(const Caller& caller, Right right) {
  if (!caller.rights.Has(right)) {
    return Error(
        absl::StatusCode::kPermissionDenied, "RIGHT_MISSING",
        fmt::format("this needs the right `{}`, which the credential does not have", NameOf(right)),
        {{"right", std::string(NameOf(right))}});
  }
  if (right == Right::kWorker && !caller.trusted_worker) {
    return Error(absl::StatusCode::kPermissionDenied, "WORKER_NOT_GRANTED",
                 "the credential is untrusted or limited to some roles, and what workers answer is "
                 "trusted as memory");
  }
  return absl::OkStatus();
}

absl::Status CheckReach(const Caller& caller, Reach reach) {
  if (caller.subject.empty() || reach != Reach::kTenant) return absl::OkStatus();
  return Error(absl::StatusCode::kPermissionDenied, "SUBJECT_NOT_GRANTED",
               "the credential is of one subject, and this call is about more than the memory of "
               "one; use a credential without `subject`");
}

Authenticator::Authenticator(std::string path, JwtVerifier* jwt, Clock now)
    : path_(std::move(path)),
      jwt_(jwt),
      now_(std::move(now)),
      table_(std::make_shared<const CredentialTable>()) {}

absl::Status Authenticator::Reload() {
  const absl::StatusOr<std::string> content = ReadSecretFile(path_);
  absl::StatusOr<CredentialTable> table =
      content.ok() ? CredentialTable::Parse(*content, path_) : content.status();
  if (!table.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("credentials: {}", std::string(table.status().message())));
  }
  auto shared = std::make_shared<const CredentialTable>(*std::move(table));
  MutexLock lock(mutex_);
  table_.swap(shared);
  return absl::OkStatus();
}

bool Authenticator::HasTenant(std::string_view tenant) const {
  std::shared_ptr<const CredentialTable> table;
  {
    MutexLock lock(mutex_);
    table = table_;
  }
  return table->HasTenant(tenant);
}

absl::StatusOr<Caller> Authenticator::Authenticate(const Proof& proof) const {
  std::shared_ptr<const CredentialTable> table;
  {
    MutexLock lock(mutex_);
    table = table_;
  }
  std::optional<Grant> signed_grant;
  GrantSum sum;
  const auto in_force = [this](const Grant* grant) {
    return grant != nullptr &&
           (grant->expires == absl::InfiniteFuture() || now_() < grant->expires);
  };
  if (proof.authorizations > 0) {
    // A bad token is an error even beside a good certificate: the caller means something else than
    // what it would get.
    if (proof.authorizations > 1) return Unauthenticated();
    MEMORYD_ASSIGN_OR_RETURN(const std::string_view token, TokenOf(proof.authorization));
    const Grant* grant = table->FindToken(token);
    if (grant == nullptr && jwt_ != nullptr) {
      signed_grant = jwt_->Verify(token);
      if (signed_grant.has_value()) grant = &*signed_grant;
    }
    if (!in_force(grant)) return Unauthenticated();
    sum.Take(*grant);
  }
  for (const std::string_view name : proof.certificate_names) {
    if (const Grant* const grant = table->FindCertificate(name); in_force(grant)) sum.Take(*grant);
  }
  return std::move(sum).ToCaller();
}

}  // namespace memoryd
