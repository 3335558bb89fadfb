// The certificate, key and client CA that TLS listeners use, as files that may be replaced.
#ifndef MEMORYD_SERVER_SETTINGS_TLS_FILES_H_
#define MEMORYD_SERVER_SETTINGS_TLS_FILES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "core/base/mutex.h"

namespace memoryd {

// Checked contents, all PEM, that belong together.
struct TlsMaterial {
  std::string certificates;  // The server's own, followed by its intermediates.
  std::string key;
  std::string client_ca;       // Empty: clients are asked for no certificate.
  std::int64_t expires_s = 0;  // When the server's own ends, in seconds since the epoch.
  std::int64_t version = 0;    // Rises with every successful Reload(), 1 for the first.
};

// Any thread may ask while another reloads.
class TlsFiles {
 public:
  // Paths; `client_ca` may be empty.
  TlsFiles(std::string certificates, std::string key, std::string client_ca);

  // Reads the files again. An error, one line that names the setting, changes nothing: files that
  // are half replaced, so that the key is not the certificate's, are never taken over.
  absl::Status Reload() MEMORYD_EXCLUDES(mutex_);

  // Null before the first successful Reload(). Shared with handshakes that go on while it is
  // replaced.
  std::shared_ptr<const TlsMaterial> material() const MEMORYD_EXCLUDES(mutex_);

  bool asks_for_client_certificates() const { return !client_ca_.empty(); }

 private:
  const std::string certificates_;
  const std::string key_;
  const std::string client_ca_;
  mutable Mutex mutex_;
  std::shared_ptr<const TlsMaterial> material_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_SETTINGS_TLS_FILES_H_
