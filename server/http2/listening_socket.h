// Sockets that listen.
#ifndef MEMORYD_SERVER_HTTP2_LISTENING_SOCKET_H_
#define MEMORYD_SERVER_HTTP2_LISTENING_SOCKET_H_

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace memoryd {

// How long to wait before the next accept when the process lacks descriptors or memory.
inline constexpr std::chrono::milliseconds kAcceptAgain(100);

// Closes what it has, and removes the file of a UNIX socket.
class ListeningSocket {
 public:
  // All that `address` stands for: a name may have several addresses. It is HOST:PORT or unix:PATH,
  // and gets the port that was picked. UNAVAILABLE in one line that names it.
  static absl::StatusOr<std::vector<ListeningSocket>> Open(std::string& address, mode_t unix_mode);

  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&&) = delete;
  ~ListeningSocket();

  // Non-blocking.
  int descriptor() const { return descriptor_; }
  bool is_unix() const { return !path_.empty(); }

 private:
  ListeningSocket(int descriptor, std::string path)
      : descriptor_(descriptor), path_(std::move(path)) {}

  static absl::StatusOr<ListeningSocket> OpenUnix(const std::string& path, mode_t mode);

  int descriptor_;
  std::string path_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_LISTENING_SOCKET_H_
