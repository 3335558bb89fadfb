#include "server/binary_path.h"

#include <sys/auxv.h>

#include <filesystem>
#include <system_error>

namespace memoryd {

std::filesystem::path BinaryPath(const std::filesystem::path& self) {
  std::error_code error;
  auto path = std::filesystem::read_symlink(self, error);
  if (!error) return path;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel hands on a pointer as a number.
  const auto* const name = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  if (name == nullptr) return {};
  auto found = std::filesystem::canonical(name, error);
  return error ? std::filesystem::path() : found;
}

}  // namespace memoryd
