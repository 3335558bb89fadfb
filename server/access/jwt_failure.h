// Why a JSON Web Token is not taken: for the operator, never for the caller.
#ifndef MEMORYD_SERVER_ACCESS_JWT_FAILURE_H_
#define MEMORYD_SERVER_ACCESS_JWT_FAILURE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

namespace memoryd {

enum class JwtFailure : std::uint8_t {
  kMalformed,  // Not three parts, not JSON, or a header that asks for what nobody knows.
  kAlgorithm,  // None of those taken, or not one of the key's.
  kKey,        // No key of that `kid`.
  kSignature,
  kIssuer,
  kAudience,
  kExpired,
  kNotYet,  // `nbf` or `iat` lies ahead.
  kClaims,  // One that is needed is missing or not what it should be.
};

// In the order of JwtFailure.
inline constexpr std::array<std::string_view, 9> kJwtFailures = {
    "malformed", "algorithm", "key",     "signature", "issuer",
    "audience",  "expired",   "not_yet", "claims"};

constexpr std::string_view NameOf(JwtFailure failure) {
  return kJwtFailures[static_cast<std::size_t>(failure)];
}

template <typename T>
using JwtResult = std::variant<T, JwtFailure>;

}  // namespace memoryd

#endif  // MEMORYD_SERVER_ACCESS_JWT_FAILURE_H_
