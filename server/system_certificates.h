#ifndef MEMORYD_SERVER_SYSTEM_CERTIFICATES_H_
#define MEMORYD_SERVER_SYSTEM_CERTIFICATES_H_

#include <span>

namespace memoryd {

// Where systems other than Debian keep the certificates of authorities, each a PEM file.
std::span<const char* const> CertificateFiles();

// Has OpenSSL, and so calls to models, trust the first of `files` that is there, by SSL_CERT_FILE;
// nothing where that or SSL_CERT_DIR is set, or where `built_in`, the folder or the file that
// OpenSSL was built to look at, is there. Call it before the second thread: it changes the
// environment.
void UseSystemCertificates(std::span<const char* const> built_in,
                           std::span<const char* const> files = CertificateFiles());
// With OpenSSL's own folder and file.
void UseSystemCertificates();

}  // namespace memoryd

#endif  // MEMORYD_SERVER_SYSTEM_CERTIFICATES_H_
