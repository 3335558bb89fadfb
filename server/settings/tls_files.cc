#include "server/settings/tls_files.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <time.h>

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/base/secret_file.h"

namespace memoryd {
namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

Owned<BIO> Reader(const std::string& text) {
  return Owned<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// An encrypted key must not make OpenSSL ask for a passphrase on the terminal.
int NoPassphrase(char*, int, int, void*) { return -1; }

absl::Status Bad(std::string_view setting, const std::string& path, std::string_view message) {
  ERR_clear_error();
  return absl::InvalidArgumentError(fmt::format("{}: {}: {}", setting, path, message));
}

absl::Status Named(std::string_view setting, const absl::Status& status) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", setting, std::string(status.message())));
}

// The first certificate of `pem`, null when there is none.
Owned<X509> FirstCertificate(const std::string& pem) {
  return Owned<X509>(PEM_read_bio_X509(Reader(pem).get(), nullptr, &NoPassphrase, nullptr));
}

// 0 when the certificate does not say it in a form that OpenSSL reads.
std::int64_t ExpirySeconds(const X509* certificate) {
  std::tm time{};
  return ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &time) == 1 ? timegm(&time) : 0;
}

}  // namespace

TlsFiles::TlsFiles(std::string certificates, std::string key, std::string client_ca)
    : certificates_(std::move(certificates)),
      key_(std::move(key)),
      client_ca_(std::move(client_ca)) {}

absl::Status TlsFiles::Reload() {
  auto material = std::make_shared<TlsMaterial>();
  absl::StatusOr<std::string> content = ReadPublicFile(certificates_);
  if (!content.ok()) return Named("tls_cert", content.status());
  material->certificates = *std::move(content);
  content = ReadSecretFile(key_);
  if (!content.ok()) return Named("tls_key", content.status());
  material->key = *std::move(content);

  const Owned<X509> certificate = FirstCertificate(material->certificates);
  if (certificate == nullptr) return Bad("tls_cert", certificates_, "holds no PEM certificate");
  const Owned<EVP_PKEY> key(
      PEM_read_bio_PrivateKey(Reader(material->key).get(), nullptr, &NoPassphrase, nullptr));
  if (key == nullptr) return Bad("tls_key", key_, "holds no PEM key without a passphrase");
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return Bad("tls_key", key_,
               fmt::format("is not the key of the certificate in {}", certificates_));
  }
  material->expires_s = ExpirySeconds(certificate.get());
  if (!client_ca_.empty()) {
    content = ReadPublicFile(client_ca_);
    if (!content.ok()) return Named("tls_client_ca", content.status());
    material->client_ca = *std::move(content);
    if (FirstCertificate(material->client_ca) == nullptr) {
      return Bad("tls_client_ca", client_ca_, "holds no PEM certificate");
    }
  }
  MutexLock lock(mutex_);
  material->version = material_ == nullptr ? 1 : material_->version + 1;
  material_ = std::move(material);
  return absl::OkStatus();
}

std::shared_ptr<const TlsMaterial> TlsFiles::material() const {
  MutexLock lock(mutex_);
  return material_;
}

}  // namespace memoryd
