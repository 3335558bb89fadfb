#include "server/system_certificates.h"

#include <openssl/x509.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <system_error>

namespace memoryd {
namespace {

bool IsThere(const char* path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

}  // namespace

std::span<const char* const> CertificateFiles() {
  // A binary that was built on Debian may run anywhere.
  static constexpr std::array kFiles = {
      "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Arch, Gentoo
      "/etc/pki/tls/certs/ca-bundle.crt",                   // Fedora, RHEL
      "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // Fedora, RHEL
      "/etc/ssl/ca-bundle.pem",                             // openSUSE
      "/etc/ssl/cert.pem",                                  // others
  };
  return kFiles;
}

void UseSystemCertificates(std::span<const char* const> built_in,
                           std::span<const char* const> files) {
  if (std::getenv(X509_get_default_cert_file_env()) != nullptr ||
      std::getenv(X509_get_default_cert_dir_env()) != nullptr ||
      std::any_of(built_in.begin(), built_in.end(), &IsThere)) {
    return;
  }
  const auto found = std::find_if(files.begin(), files.end(), &IsThere);
  if (found != files.end()) setenv(X509_get_default_cert_file_env(), *found, /*overwrite=*/0);
}

void UseSystemCertificates() {
  const std::array built_in = {X509_get_default_cert_dir(), X509_get_default_cert_file()};
  UseSystemCertificates(built_in);
}

}  // namespace memoryd
