// Whose credential is whose, as a file says it.
#ifndef MEMORYD_SERVER_ACCESS_CREDENTIAL_TABLE_H_
#define MEMORYD_SERVER_ACCESS_CREDENTIAL_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/sha256.h"
#include "server/wire/method.h"

namespace memoryd {

// A set of rights. None implies another.
class Rights {
 public:
  static Rights All() {
    Rights all;
    all.bits_ = 0xFF;
    return all;
  }

  void Add(Right right) { bits_ = static_cast<std::uint8_t>(bits_ | Bit(right)); }
  void Add(Rights other) { bits_ = static_cast<std::uint8_t>(bits_ | other.bits_); }
  bool Has(Right right) const { return right == Right::kNone || (bits_ & Bit(right)) != 0; }

 private:
  static unsigned Bit(Right right) { return 1U << static_cast<unsigned>(right); }
  std::uint8_t bits_ = 0;
};

// The roles of messages that may be written, as they are sent.
class Roles {
 public:
  // Any.
  Roles() = default;
  explicit Roles(std::set<std::string, std::less<>> names) : names_(std::move(names)) {}

  void Add(const Roles& other) {
    if (!names_.has_value()) return;
    if (other.names_.has_value()) {
      names_->insert(other.names_->begin(), other.names_->end());
    } else {
      names_.reset();
    }
  }
  bool any() const { return !names_.has_value(); }
  bool Has(std::string_view role) const { return !names_.has_value() || names_->contains(role); }

 private:
  std::optional<std::set<std::string, std::less<>>> names_;
};

// What one credential grants.
struct Grant {
  std::string tenant;
  // Whose credential it is: `token:`, `certificate:` or `jwt:` and a name.
  std::string principal;
  Rights rights;
  Roles roles;
  bool untrusted = false;  // See memoryd.v1.Message.untrusted.
  std::string subject;     // Whose sessions it opens; empty: those of all.
  absl::Time expires = absl::InfiniteFuture();
};

// Immutable, so any thread may ask. docs/ACCESS.md describes the file.
class CredentialTable {
 public:
  // INVALID_ARGUMENT with one line that begins with `path` and the number of the bad line, and
  // never holds what might be a secret.
  static absl::StatusOr<CredentialTable> Parse(const std::string& yaml, const std::string& path);

  // Null for an unknown token. Expired grants are found too.
  const Grant* FindToken(std::string_view token) const;
  // `name` is a URI or DNS name, or the common name, of a verified certificate.
  const Grant* FindCertificate(std::string_view name) const;

  // Whether a credential is of the tenant. Takes as long as there are credentials.
  bool HasTenant(std::string_view tenant) const;

  std::size_t size() const { return tokens_.size() + certificates_.size(); }

 private:
  friend class CredentialParser;

  absl::flat_hash_map<Sha256Digest, Grant> tokens_;
  std::map<std::string, Grant, std::less<>> certificates_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_ACCESS_CREDENTIAL_TABLE_H_
