// The bytes of one accepted connection, in plain text or by TLS.
#ifndef MEMORYD_SERVER_HTTP2_TRANSPORT_H_
#define MEMORYD_SERVER_HTTP2_TRANSPORT_H_

#include <openssl/ssl.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "server/settings/tls_files.h"

namespace memoryd {

// Makes the handshakes of new connections from what `files` hold at that time: TLS 1.2 or newer,
// no resumption. Any thread.
class TlsHandshakes {
 public:
  // `files` outlive it. `protocol`: chosen by ALPN; who offers others is refused. It lives for
  // ever.
  TlsHandshakes(const TlsFiles* files, const char* protocol)
      : files_(*files), protocol_(protocol) {}

  // INTERNAL where OpenSSL does not take the files, which TlsFiles has checked.
  absl::StatusOr<std::shared_ptr<SSL_CTX>> Current() MEMORYD_EXCLUDES(mutex_);

 private:
  const TlsFiles& files_;
  const char* const protocol_;
  Mutex mutex_;
  std::int64_t version_ MEMORYD_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<SSL_CTX> context_ MEMORYD_GUARDED_BY(mutex_);
};

// A non-blocking socket. One thread at a time.
class Transport {
 public:
  enum class State : std::uint8_t {
    kDone,       // Read or wrote some bytes, or the handshake is over.
    kWantRead,   // Try again when the socket can be read,
    kWantWrite,  // or written.
    kClosed,     // By the peer, in good order or not.
  };
  struct Result {
    State state = State::kClosed;
    std::size_t bytes = 0;
  };

  // Takes the socket over, also where it fails or throws. `tls`: null for plain text.
  static absl::StatusOr<std::unique_ptr<Transport>> Make(int socket, std::shared_ptr<SSL_CTX> tls);
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  virtual Result Handshake() = 0;
  virtual Result Read(char* buffer, std::size_t size) = 0;
  // Writes the first bytes of `parts`, of which there are some. After kWantWrite the next call
  // begins with the same bytes, in whatever parts.
  virtual Result Write(std::span<const iovec> parts) = 0;
  // Whether Read() has bytes without the socket becoming readable.
  virtual bool HasBuffered() const = 0;
  // Of the verified client certificate; see RpcCall::certificate_names().
  virtual std::vector<std::string> CertificateNames() const = 0;

 protected:
  Transport() = default;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_TRANSPORT_H_
