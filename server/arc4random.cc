// arc4random(), which glibc has since 2.36, for a binary that carries its libraries: libstdc++ of
// Debian 12 calls it for std::random_device, and so asks for a newer C library than all else that
// is in the binary does.
#include <sys/random.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

extern "C" std::uint32_t arc4random() noexcept {
  std::uint32_t number = 0;
  while (::getrandom(&number, sizeof number, 0) != sizeof number) {
    if (errno != EINTR) std::abort();
  }
  return number;
}
