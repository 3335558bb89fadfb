// SHA-256, by which the server knows tokens, requests and names without keeping them.
#ifndef MEMORYD_CORE_BASE_SHA256_H_
#define MEMORYD_CORE_BASE_SHA256_H_

#include <openssl/sha.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace memoryd {

using Sha256Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

// Any thread.
Sha256Digest Sha256(std::string_view text);

// The first 16 hexadecimal digits: enough to tell one from another in a log.
std::string ShortHash(const Sha256Digest& digest);
inline std::string ShortHash(std::string_view text) { return ShortHash(Sha256(text)); }

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_SHA256_H_
