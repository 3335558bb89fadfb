#include "server/http2/transport.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "server/settings/tls_files.h"

namespace memoryd {
namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

absl::Status TlsError(std::string_view what) {
  const unsigned long code = ERR_peek_error();
  const char* const reason = ERR_reason_error_string(code);
  absl::Status status = absl::InternalError(
      std::string(what).append(": ").append(reason == nullptr ? "unknown error" : reason));
  ERR_clear_error();
  return status;
}

Owned<BIO> Reader(const std::string& text) {
  return Owned<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

int NoPassphrase(char*, int, int, void*) { return -1; }

// gRPC's clients offer `h2` and insist on it. `ours` is what the server speaks.
int SelectProtocol(SSL*, const unsigned char** chosen, unsigned char* chosen_size,
                   const unsigned char* offered, unsigned int offered_size, void* protocol) {
  const std::string_view ours(static_cast<const char*>(protocol));
  for (unsigned int i = 0; i < offered_size; i += 1U + offered[i]) {
    const std::string_view name(reinterpret_cast<const char*>(offered) + i + 1, offered[i]);
    if (name == ours) {
      *chosen = offered + i + 1;
      *chosen_size = offered[i];
      return SSL_TLSEXT_ERR_OK;
    }
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

absl::Status UseCertificates(SSL_CTX* context, const TlsMaterial& material) {
  const Owned<BIO> certificates = Reader(material.certificates);
  const Owned<X509> own(PEM_read_bio_X509(certificates.get(), nullptr, &NoPassphrase, nullptr));
  const Owned<EVP_PKEY> key(
      PEM_read_bio_PrivateKey(Reader(material.key).get(), nullptr, &NoPassphrase, nullptr));
  if (own == nullptr || key == nullptr || SSL_CTX_use_certificate(context, own.get()) != 1 ||
      SSL_CTX_use_PrivateKey(context, key.get()) != 1) {
    return TlsError("tls_cert");
  }
  while (X509* const intermediate =
             PEM_read_bio_X509(certificates.get(), nullptr, &NoPassphrase, nullptr)) {
    if (SSL_CTX_add0_chain_cert(context, intermediate) != 1) {
      X509_free(intermediate);
      return TlsError("tls_cert");
    }
  }
  ERR_clear_error();  // The end of the file is one.
  return absl::OkStatus();
}

absl::Status AskForCertificates(SSL_CTX* context, const std::string& roots) {
  const Owned<BIO> reader = Reader(roots);
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  while (true) {
    const Owned<X509> root(PEM_read_bio_X509(reader.get(), nullptr, &NoPassphrase, nullptr));
    if (root == nullptr) break;
    if (X509_STORE_add_cert(store, root.get()) != 1 ||
        SSL_CTX_add_client_CA(context, root.get()) != 1) {
      return TlsError("tls_client_ca");
    }
  }
  ERR_clear_error();
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<SSL_CTX>> MakeContext(const TlsMaterial& material,
                                                     const char* protocol) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  if (context == nullptr) return TlsError("TLS");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  // What gRPC offers: forward secrecy and authenticated encryption alone.
  SSL_CTX_set_cipher_list(context.get(), "ECDHE+AESGCM:ECDHE+CHACHA20");
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                         SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(context.get(), &SelectProtocol, const_cast<char*>(protocol));
  MEMORYD_RETURN_IF_ERROR(UseCertificates(context.get(), material));
  if (!material.client_ca.empty()) {
    MEMORYD_RETURN_IF_ERROR(AskForCertificates(context.get(), material.client_ca));
  }
  return context;
}

// Appends the subject's alternative names of one type that hold a colon, or those that don't.
void AppendNames(const X509* certificate, int type, bool with_colon,
                 std::vector<std::string>& names) {
  const Owned<GENERAL_NAMES> found(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  if (found == nullptr) return;
  for (int i = 0; i < sk_GENERAL_NAME_num(found.get()); ++i) {
    const GENERAL_NAME* const each = sk_GENERAL_NAME_value(found.get(), i);
    if (each->type != type) continue;
    const ASN1_IA5STRING* const text =
        type == GEN_URI ? each->d.uniformResourceIdentifier : each->d.dNSName;
    std::string name(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                     static_cast<std::size_t>(ASN1_STRING_length(text)));
    if ((name.find(':') != std::string::npos) == with_colon) names.push_back(std::move(name));
  }
}

void AppendCommonName(const X509* certificate, std::vector<std::string>& names) {
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  const int index = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (index < 0) return;
  unsigned char* utf8 = nullptr;
  const int size =
      ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, index)));
  if (size < 0) {
    ERR_clear_error();
    return;
  }
  std::string name(reinterpret_cast<const char*>(utf8), static_cast<std::size_t>(size));
  OPENSSL_free(utf8);
  if (name.find(':') == std::string::npos) names.push_back(std::move(name));
}

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

class PlainTransport final : public Transport {
 public:
  explicit PlainTransport(Socket socket) : socket_(std::move(socket)) {}

  Result Handshake() override { return {State::kDone, 0}; }

  Result Read(char* buffer, std::size_t size) override {
    return Of(::recv(socket_.descriptor(), buffer, size, 0), State::kWantRead);
  }

  Result Write(std::span<const iovec> parts) override {
    msghdr message = {};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    return Of(::sendmsg(socket_.descriptor(), &message, MSG_NOSIGNAL), State::kWantWrite);
  }

  bool HasBuffered() const override { return false; }
  std::vector<std::string> CertificateNames() const override { return {}; }

 private:
  static Result Of(ssize_t bytes, State wait) {
    if (bytes > 0) return {State::kDone, static_cast<std::size_t>(bytes)};
    if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return {wait, 0};
    return {State::kClosed, 0};
  }

  const Socket socket_;
};

class TlsTransport final : public Transport {
 public:
  TlsTransport(Socket socket, Owned<SSL> ssl) : socket_(std::move(socket)), ssl_(std::move(ssl)) {}

  Result Handshake() override { return Of(SSL_accept(ssl_.get()), 0); }

  Result Read(char* buffer, std::size_t size) override {
    std::size_t bytes = 0;
    const int done = SSL_read_ex(ssl_.get(), buffer, size, &bytes);
    return Of(done, bytes);
  }

  Result Write(std::span<const iovec> parts) override {
    if (parts.size() == 1 || parts.front().iov_len >= kRecord) {
      return Write(parts.front().iov_base, parts.front().iov_len);
    }
    // OpenSSL would make a record of each small part.
    std::array<char, kRecord> record;
    std::size_t size = 0;
    for (const iovec& part : parts) {
      const std::size_t taken = std::min(part.iov_len, record.size() - size);
      std::memcpy(record.data() + size, part.iov_base, taken);
      size += taken;
    }
    return Write(record.data(), size);
  }

  bool HasBuffered() const override { return SSL_has_pending(ssl_.get()) == 1; }

  std::vector<std::string> CertificateNames() const override {
    std::vector<std::string> names;
    const Owned<X509> certificate(SSL_get1_peer_certificate(ssl_.get()));
    if (certificate == nullptr) return names;
    // The colon keeps the kinds apart, so that nobody who may choose his common name can pass for a
    // URI.
    AppendNames(certificate.get(), GEN_URI, /*with_colon=*/true, names);
    AppendNames(certificate.get(), GEN_DNS, /*with_colon=*/false, names);
    if (names.empty()) AppendCommonName(certificate.get(), names);
    return names;
  }

 private:
  // The most that a record of TLS takes (RFC 8446, 5.1).
  static constexpr std::size_t kRecord = 16 << 10;

  Result Write(const void* bytes, std::size_t size) {
    std::size_t written = 0;
    const int done = SSL_write_ex(ssl_.get(), bytes, size, &written);
    return Of(done, written);
  }

  Result Of(int done, std::size_t bytes) {
    if (done == 1) return {State::kDone, bytes};
    const int error = SSL_get_error(ssl_.get(), done);
    // Errors are kept by thread, and this thread has other connections.
    ERR_clear_error();
    switch (error) {
      case SSL_ERROR_WANT_READ:
        return {State::kWantRead, 0};
      case SSL_ERROR_WANT_WRITE:
        return {State::kWantWrite, 0};
      default:
        return {State::kClosed, 0};
    }
  }

  const Socket socket_;
  const Owned<SSL> ssl_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<SSL_CTX>> TlsHandshakes::Current() {
  const std::shared_ptr<const TlsMaterial> material = files_.material();
  if (material == nullptr) return absl::InternalError("there is no certificate");
  MutexLock lock(mutex_);
  if (version_ != material->version) {
    MEMORYD_ASSIGN_OR_RETURN(context_, MakeContext(*material, protocol_));
    version_ = material->version;
  }
  return context_;
}

absl::StatusOr<std::unique_ptr<Transport>> Transport::Make(int socket,
                                                           std::shared_ptr<SSL_CTX> tls) {
  Socket owned(socket);
  if (tls == nullptr) return std::make_unique<PlainTransport>(std::move(owned));
  Owned<SSL> ssl(SSL_new(tls.get()));
  if (ssl == nullptr || SSL_set_fd(ssl.get(), socket) != 1) return TlsError("TLS");
  return std::make_unique<TlsTransport>(std::move(owned), std::move(ssl));
}

}  // namespace memoryd
