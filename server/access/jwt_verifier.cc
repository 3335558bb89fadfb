#include "server/access/jwt_verifier.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/histogram.h"
#include "core/base/json_check.h"
#include "core/base/mutex.h"
#include "core/base/secret_file.h"
#include "core/base/sha256.h"
#include "core/base/visible_text.h"
#include "server/access/credential_table.h"
#include "server/access/jwt_failure.h"
#include "server/access/jwt_keys.h"
#include "server/wire/field_checks.h"
#include "server/wire/method.h"

namespace memoryd {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxSubject = 256;
constexpr std::string_view kPrefix = "memoryd:";
constexpr std::string_view kRolePrefix = "role:";
constexpr std::string_view kUntrusted = "untrusted";

const std::string* StringOf(const Json& claims, const std::string& name) {
  const auto found = claims.find(name);
  return found == claims.end() ? nullptr : found->get_ptr<const std::string*>();
}

// nullopt for what is no number.
std::optional<absl::Time> TimeOf(const Json& claim) {
  if (!claim.is_number()) return std::nullopt;
  // Saturates.
  return absl::UnixEpoch() + absl::Seconds(claim.get<double>());
}

bool IsFor(const Json& claims, const std::string& audience) {
  const auto found = claims.find("aud");
  if (found == claims.end()) return false;
  if (!found->is_array()) return *found == audience;
  return std::find(found->begin(), found->end(), audience) != found->end();
}

// What the words of a claim grant. A word that says nothing to us is for somebody else.
class Granted {
 public:
  explicit Granted(const Json& claim) {
    if (const auto* text = claim.get_ptr<const std::string*>()) {
      for (std::size_t begin = 0; begin <= text->size();) {
        const std::size_t end = std::min(text->find(' ', begin), text->size());
        Add(std::string_view(*text).substr(begin, end - begin));
        begin = end + 1;
      }
    } else if (claim.is_array()) {
      for (const Json& word : claim) {
        if (const auto* name = word.get_ptr<const std::string*>()) Add(*name);
      }
    }
  }

  Rights rights() const { return rights_; }
  Roles roles() const { return roles_.empty() ? Roles() : Roles(roles_); }
  bool untrusted() const { return untrusted_; }

 private:
  void Add(std::string_view word) {
    if (!word.starts_with(kPrefix)) return;
    word.remove_prefix(kPrefix.size());
    if (word.starts_with(kRolePrefix)) {
      roles_.emplace(word.substr(kRolePrefix.size()));
    } else if (word == kUntrusted) {
      untrusted_ = true;
    } else if (const std::optional<Right> right = RightOf(word)) {
      rights_.Add(*right);
    }
  }

  Rights rights_;
  std::set<std::string, std::less<>> roles_;
  bool untrusted_ = false;
};

}  // namespace

JwtVerifier::JwtVerifier(JwtSettings settings, Clock now)
    : settings_(std::move(settings)), now_(std::move(now)) {}

absl::Status JwtVerifier::Reload() {
  const absl::StatusOr<std::string> content = ReadPublicFile(settings_.jwks_file);
  absl::StatusOr<JwtKeys> keys =
      content.ok() ? JwtKeys::Parse(*content, settings_.jwks_file) : content.status();
  if (!keys.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("jwks_file: {}", std::string(keys.status().message())));
  }
  auto shared = std::make_shared<const JwtKeys>(*std::move(keys));
  MutexLock lock(mutex_);
  keys_.swap(shared);
  remembered_.clear();
  return absl::OkStatus();
}

std::optional<Grant> JwtVerifier::Verify(std::string_view token) {
  const Sha256Digest digest = Sha256(token);
  std::shared_ptr<const JwtKeys> keys;
  {
    MutexLock lock(mutex_);
    const auto found = remembered_.find(digest);
    if (found != remembered_.end() && now_() < found->second.expires) return found->second;
    keys = keys_;
  }
  JwtResult<Grant> result =
      keys == nullptr ? JwtResult<Grant>(JwtFailure::kKey) : Check(*keys, token);
  if (const auto* const failure = std::get_if<JwtFailure>(&result)) {
    Increment(refused_[static_cast<std::size_t>(*failure)]);
    spdlog::debug("a JSON Web Token is not taken: {}", NameOf(*failure));
    return std::nullopt;
  }
  MutexLock lock(mutex_);
  // Else the keys were replaced while this one was checked.
  if (keys == keys_) {
    if (remembered_.size() >= kMaxRemembered) remembered_.clear();
    remembered_.insert_or_assign(digest, std::get<Grant>(result));
  }
  return std::get<Grant>(std::move(result));
}

JwtResult<Grant> JwtVerifier::Check(const JwtKeys& keys, std::string_view token) const {
  const JwtResult<std::string> payload = keys.Verify(token);
  if (const auto* const failure = std::get_if<JwtFailure>(&payload)) return *failure;
  const std::string& json = std::get<std::string>(payload);
  // Strict, so that no claim stands there twice.
  if (!CheckJsonObject(json).ok()) return JwtFailure::kMalformed;
  const Json claims = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  const std::string* const issuer = StringOf(claims, "iss");
  if (issuer == nullptr || *issuer != settings_.issuer) return JwtFailure::kIssuer;
  if (!IsFor(claims, settings_.audience)) return JwtFailure::kAudience;

  const absl::Time now = now_();
  const auto expires = claims.find("exp");
  if (expires == claims.end()) return JwtFailure::kClaims;
  const std::optional<absl::Time> end = TimeOf(*expires);
  if (!end.has_value()) return JwtFailure::kClaims;
  if (now >= *end + kLeeway) return JwtFailure::kExpired;
  for (const char* const name : {"nbf", "iat"}) {
    const auto found = claims.find(name);
    if (found == claims.end()) continue;
    const std::optional<absl::Time> begin = TimeOf(*found);
    if (!begin.has_value()) return JwtFailure::kClaims;
    if (now < *begin - kLeeway) return JwtFailure::kNotYet;
  }

  const std::string* const tenant = StringOf(claims, settings_.tenant_claim);
  const std::string* const subject = StringOf(claims, "sub");
  if (tenant == nullptr || !CheckId("tenant", *tenant, kMaxTenant).ok() || subject == nullptr ||
      !CheckId("sub", *subject, kMaxSubject).ok()) {
    return JwtFailure::kClaims;
  }
  Grant grant;
  grant.tenant = *tenant;
  grant.principal = "jwt:" + *subject;
  if (const auto rights = claims.find(settings_.rights_claim); rights != claims.end()) {
    const Granted granted(*rights);
    grant.rights = granted.rights();
    grant.roles = granted.roles();
    grant.untrusted = granted.untrusted();
  }
  if (!settings_.subject_claim.empty()) {
    // Without it the token would open what is of all.
    const std::string* const of = StringOf(claims, settings_.subject_claim);
    if (of == nullptr || !CheckId("subject", *of, kMaxSubjectBytes).ok() ||
        !ShowsAllCharacters(*of)) {
      return JwtFailure::kClaims;
    }
    grant.subject = *of;
  }
  grant.expires = *end + kLeeway;
  return grant;
}

}  // namespace memoryd
