#include "cli/listener.h"

#include <asm-generic/socket.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

namespace memoryd::cli {
namespace {

constexpr int kConnectMs = 1000;

// What connecting ends with: 0 or an errno.
int Connect(const sockaddr* address, socklen_t bytes) {
  const int descriptor =
      ::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return errno;
  int error = ::connect(descriptor, address, bytes) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd polled{descriptor, POLLOUT, 0};
    socklen_t length = sizeof(error);
    if (::poll(&polled, 1, kConnectMs) <= 0) {
      error = ETIMEDOUT;
    } else if (::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
      error = errno;
    }
  }
  ::close(descriptor);
  return error;
}

bool NothingListensAtPath(std::string_view path) {
  // gRPC's other spelling of an absolute one.
  if (path.starts_with("//")) path.remove_prefix(2);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int error = Connect(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  return error == ENOENT || error == ECONNREFUSED;
}

}  // namespace

bool NothingListens(const std::string& target) {
  if (target.starts_with("unix:")) return NothingListensAtPath(std::string_view(target).substr(5));
  const std::size_t colon = target.rfind(':');
  if (colon == std::string::npos) return false;
  std::string host = target.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), target.c_str() + colon + 1, &wanted, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  bool refused = false;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    switch (Connect(address->ai_addr, address->ai_addrlen)) {
      case ECONNREFUSED:
        refused = true;
        break;
      // A machine without IPv6 has a localhost of it all the same.
      case EADDRNOTAVAIL:
      case EAFNOSUPPORT:
        break;
      default:
        return false;
    }
  }
  return refused;
}

}  // namespace memoryd::cli
