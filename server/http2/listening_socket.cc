#include "server/http2/listening_socket.h"

#include <asm-generic/socket.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"

namespace memoryd {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr int kBacklog = 1024;

absl::Status CanNotListen(std::string_view address, std::string_view why) {
  return absl::UnavailableError(fmt::format("can't listen on {}: {}", address, why));
}

std::string WhyNot(int error) {
  return error == EADDRINUSE ? "the address is in use by another process" : std::strerror(error);
}

// Whether somebody listens on this UNIX socket.
bool IsServed(const sockaddr_un& name) {
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return false;
  const bool served = ::connect(probe, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0;
  ::close(probe);
  return served;
}

in_port_t& PortOf(sockaddr* name) {
  return name->sa_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(name)->sin6_port
                                     : reinterpret_cast<sockaddr_in*>(name)->sin_port;
}

}  // namespace

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

ListeningSocket::~ListeningSocket() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (!path_.empty()) ::unlink(path_.c_str());
}

absl::StatusOr<ListeningSocket> ListeningSocket::OpenUnix(const std::string& path, mode_t mode) {
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof(name.sun_path)) {
    return CanNotListen("unix:" + path, fmt::format("a socket's path may have {} bytes; it has {}",
                                                    sizeof(name.sun_path) - 1, path.size()));
  }
  std::memcpy(name.sun_path, path.data(), path.size());
  struct stat status = {};
  if (::lstat(path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) {
      return CanNotListen("unix:" + path, "there is a file that is no socket");
    }
    if (IsServed(name)) return CanNotListen("unix:" + path, WhyNot(EADDRINUSE));
    ::unlink(path.c_str());
  }
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return CanNotListen("unix:" + path, std::strerror(errno));
  // Nobody can connect before it listens, and by then its mode is set.
  if (::bind(socket, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0) {
    const int error = errno;
    ::close(socket);
    return CanNotListen("unix:" + path, WhyNot(error));
  }
  ListeningSocket made(socket, path);
  if (::chmod(path.c_str(), mode) != 0 || ::listen(socket, kBacklog) != 0) {
    return CanNotListen("unix:" + path, std::strerror(errno));
  }
  return made;
}

absl::StatusOr<std::vector<ListeningSocket>> ListeningSocket::Open(std::string& address,
                                                                   mode_t unix_mode) {
  std::vector<ListeningSocket> sockets;
  if (address.starts_with(kUnix)) {
    MEMORYD_ASSIGN_OR_RETURN(ListeningSocket made,
                             OpenUnix(address.substr(kUnix.size()), unix_mode));
    sockets.push_back(std::move(made));
    return sockets;
  }
  const std::size_t colon = address.rfind(':');
  const std::string port = address.substr(colon + 1);
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo wanted = {};
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed =
      ::getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &wanted, &found);
  if (failed != 0) return CanNotListen(address, ::gai_strerror(failed));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
  in_port_t picked = 0;
  int error = EADDRNOTAVAIL;
  for (addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (picked != 0) PortOf(each->ai_addr) = picked;
    const int socket =
        ::socket(each->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (socket < 0) {
      error = errno;
      continue;
    }
    ListeningSocket made(socket, {});
    const int on = 1;
    // A port in TIME_WAIT may be taken; one that is listened on may not.
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (::bind(socket, each->ai_addr, each->ai_addrlen) != 0 || ::listen(socket, kBacklog) != 0) {
      error = errno;
      // Of a name's addresses each must be free: else callers would reach another server.
      if (error == EADDRINUSE) return CanNotListen(address, WhyNot(error));
      continue;
    }
    sockaddr_storage name = {};
    socklen_t size = sizeof(name);
    ::getsockname(socket, reinterpret_cast<sockaddr*>(&name), &size);
    picked = PortOf(reinterpret_cast<sockaddr*>(&name));
    sockets.push_back(std::move(made));
  }
  if (sockets.empty()) return CanNotListen(address, WhyNot(error));
  address = fmt::format("{}:{}", address.substr(0, colon), ntohs(picked));
  return sockets;
}

}  // namespace memoryd
