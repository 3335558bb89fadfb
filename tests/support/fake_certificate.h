// A certificate for a test, made on the spot.
#ifndef MEMORYD_TESTS_SUPPORT_FAKE_CERTIFICATE_H_
#define MEMORYD_TESTS_SUPPORT_FAKE_CERTIFICATE_H_

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <string>

namespace memoryd {

// For the DNS name `localhost` alone, signed by itself, with TLS to serve it.
class FakeCertificate {
 public:
  FakeCertificate() {
    EVP_PKEY* const key = EVP_EC_gen("P-256");
    X509* const certificate = X509_new();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME* const name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    X509_EXTENSION* const names =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:localhost");
    X509_add_ext(certificate, names, -1);
    X509_EXTENSION_free(names);
    X509_sign(certificate, key, EVP_sha256());

    tls_ = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate(tls_, certificate);
    SSL_CTX_use_PrivateKey(tls_, key);

    BIO* const memory = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(memory, certificate);
    char* data = nullptr;
    const long size = BIO_get_mem_data(memory, &data);
    pem_.assign(data, static_cast<std::size_t>(size));
    BIO_reset(memory);
    PEM_write_bio_PrivateKey(memory, key, nullptr, nullptr, 0, nullptr, nullptr);
    const long key_size = BIO_get_mem_data(memory, &data);
    key_pem_.assign(data, static_cast<std::size_t>(key_size));
    BIO_free(memory);
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  ~FakeCertificate() { SSL_CTX_free(tls_); }
  FakeCertificate(const FakeCertificate&) = delete;
  FakeCertificate& operator=(const FakeCertificate&) = delete;

  SSL_CTX* tls() const { return tls_; }
  const std::string& pem() const { return pem_; }
  const std::string& key_pem() const { return key_pem_; }

 private:
  SSL_CTX* tls_ = nullptr;
  std::string pem_;
  std::string key_pem_;
};

}  // namespace memoryd

#endif  // MEMORYD_TESTS_SUPPORT_FAKE_CERTIFICATE_H_
