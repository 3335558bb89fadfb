#include "core/base/sha256.h"

#include <openssl/evp.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace memoryd {

Sha256Digest Sha256(std::string_view text) {
  // OpenSSL's SHA256() looks its own algorithm up at every call, which takes longer than a short
  // text's digest does.
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  thread_local const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                                &EVP_MD_CTX_free);
  Sha256Digest digest;
  if (algorithm == nullptr || context == nullptr ||
      EVP_DigestInit_ex2(context.get(), algorithm, nullptr) != 1 ||
      EVP_DigestUpdate(context.get(), text.data(), text.size()) != 1 ||
      EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) != 1) {
    SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  }
  return digest;
}

std::string ShortHash(const Sha256Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = 0; i < 8; ++i) {
    text[2 * i] = kDigits[digest[i] >> 4U];
    text[2 * i + 1] = kDigits[digest[i] & 0xFU];
  }
  return text;
}

}  // namespace memoryd
