// SHA-256, by which the server knows tokens, requests and names without keeping them.
#ifndef MEMORYD_SERVER_SHA256_H_
#define MEMORYD_SERVER_SHA256_H_

#include <fmt/format.h>
#include <openssl/sha.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace memoryd {

using Sha256Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

inline Sha256Digest Sha256(std::string_view text) {
  Sha256Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

// The first 16 hexadecimal digits: enough to tell one from another in a log.
inline std::string ShortHash(const Sha256Digest& digest) {
  std::string text;
  for (std::size_t i = 0; i < 8; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}
inline std::string ShortHash(std::string_view text) { return ShortHash(Sha256(text)); }

}  // namespace memoryd

#endif  // MEMORYD_SERVER_SHA256_H_
