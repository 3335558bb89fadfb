// The keys of a JWKS file (RFC 7517), and the tokens (RFC 7519) that they have signed.
#ifndef MEMORYD_SERVER_ACCESS_JWT_KEYS_H_
#define MEMORYD_SERVER_ACCESS_JWT_KEYS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/access/jwt_failure.h"

struct _cjose_jwk_int;

namespace memoryd {

// Immutable, so any thread may ask. Takes RS256 to RS512, PS256 to PS512 and ES256 to ES512, each
// with a key of its own kind; nothing that a token says of itself widens that.
class JwtKeys {
 public:
  static constexpr std::size_t kMaxKeys = 64;

  // Keys of other kinds, and those for encryption, are passed over. INVALID_ARGUMENT with one line
  // that begins with `path`: also for a private or symmetric key, which no verifier should have, a
  // key without `kid`, RSA of less than 2,048 bits, and when no key is left.
  static absl::StatusOr<JwtKeys> Parse(const std::string& json, const std::string& path);

  // The payload of a token in compact form that the key of its `kid` has signed; else why not.
  JwtResult<std::string> Verify(std::string_view token) const;

 private:
  struct ReleaseKey {
    void operator()(_cjose_jwk_int* key) const;
  };
  struct Key {
    std::string id;
    std::vector<std::string_view> algorithms;
    std::unique_ptr<_cjose_jwk_int, ReleaseKey> jwk;
  };

  std::vector<Key> keys_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_ACCESS_JWT_KEYS_H_
